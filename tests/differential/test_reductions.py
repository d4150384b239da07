"""Many reductions in one sweep: more sums than shared memory holds, and words whose order does not matter."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

FORMATS = ("f32", "bf16", "ocp.e4m3fn")
ALL = {"races": True} if ptxrun.available() else None


def step(form):
    """Five sums in order, two maxima and a conjunction of the same two streams."""
    tensors = f"!altgrad.tensors<{form}>"
    kinds = {"a": "add", "b": "sumsq", "c": "add", "d": "sumsq", "e": "add", "f": "max", "g": "max"}
    signature = "".join(f", out %{name}: f32" for name in kinds)
    folds = "".join(f"%{name}1 = reduce {kind} %{v} over step : f32\n"
                    for (name, kind), v in zip(kinds.items(), "xxyyzxz"))
    commits = "".join(f", %{name}1 to %{name} : f32" for name in kinds)
    return f"""
      altgrad.step @s(in %p: {tensors}, in %q: !altgrad.tensors<f32>, out %h: f32{signature}) {{
        %pr = dequantize %p : {tensors}
        %qr = dequantize %q : !altgrad.tensors<f32>
        %x = element %pr
        %y = element %qr
        %z = arith.mulf %x, %y : f32
        {folds}
        %less = arith.cmpf ole, %x, %y : f32
        %every = reduce and %less over step : i1
        %h1 = arith.select %every, %a1, %b1 : f32
        commit always %h1 to %h : f32{commits}
      }}"""


@pytest.mark.parametrize("form", FORMATS)
def test_many_reductions_in_one_sweep(form):
    compiled = program.Program(step(form))
    rng = np.random.default_rng(11)
    rows = compiled.rows([[9000, 5, 4096, 257]])
    for shifts, special in ([0, 0, 0, 0], 0), ([0, 1, 3, 0], 0), ([0, 0, 1, 0], 0.1):
        values = templatecases.start_values(compiled, rows, rng, special)
        compare.run_steps(compiled, rows, shifts, values, templatecases.schedule_for(compiled), rng, ALL)
