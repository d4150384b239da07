"""Rungs against the order of a format's numbers, and how many of all draws move a parameter by how much."""

import numpy as np
import pytest

import compare
import formats
import program
import rounding
from buffers import Memory
from test_rungs import GRIDS

PLACES = "!altgrad.tensors<#altgrad.format<exponent = 0, mantissa = {0}, bias = -{0}, inf = false, nan = none>>"


@pytest.mark.parametrize("grid", [name for name, form in formats.KNOWN.items()
                                  if form.bits <= 8 and form.signed and not form.complement])
def test_rungs_are_places_in_the_order_of_numbers(grid):
    """Every code: those of numbers count from the zero in the middle, others lie beyond."""
    form = formats.named(grid)
    places, codes = PLACES.format(form.bits - 1), np.arange(1 << form.bits).astype(np.uint8)
    compiled = program.Program(f"""altgrad.step @s(in %w: !altgrad.tensors<{grid}>, out %r: !altgrad.tensors<f32>) {{
  %p = recode %w : !altgrad.tensors<{grid}> to {places}
  %n = dequantize %p : {places}
  commit always %n to %r : !altgrad.tensors<f32>
}}
""")
    values = {"w": codes, "r": np.zeros(len(codes), np.uint32)}
    memory = Memory(compiled.signature, compiled.rows([[len(codes)]]), [0]).fill(values)
    after = compare.agree(compiled, compare.executors(compiled, None), memory, values, grid).values()
    rungs, numbers = after["r"].view(np.float32), formats.decode(form, codes)
    order = np.unique(numbers[np.isfinite(numbers)] + np.float32(0))
    finite = np.isfinite(numbers)
    assert (order[rungs[finite].astype(int) + len(order) // 2] == numbers[finite]).all()
    assert (np.abs(rungs[~finite]) > len(order) // 2).all()


def moved_by(r, grid="ocp.e4m3fn"):
    """How far each of the 65536 draws moves a parameter of rung 56 that is to go down by r: by the program, whose
    seed and step the tensor's elements give all draws of."""
    compiled = program.Program(program.generated("gridoptim", f"param={grid} rungs={grid}"), targets=("x86-64-v4", "x86-64-v3"))
    drawn, count = np.zeros(65536, bool), 0
    total = np.zeros(65536, np.int64)
    for step in range(24):
        n = 65536
        draws = rounding.draws(np.arange(n), 5, step + 1, 0, 0)
        values = {"g": np.full(n, r, np.float32).view(np.uint32), "w": np.full(n, 56, np.uint8),
                  "velocity": np.zeros(n, np.uint32), "scale": np.array([1.0]), "momentum": np.array([0.0]),
                  "decay": np.array([0.0]), "rung_clip": np.array([10.0]), "seed": np.array([5]),
                  "draws": np.array([step]), "flips": np.zeros(1, np.float32), "updates": np.zeros(1, np.float32)}
        memory = Memory(compiled.signature, compiled.rows([[n]]), [0]).fill(values)
        _, run = compare.executors(compiled, None)[0]
        run(memory)
        total[draws] = 56 - memory.values()["w"].astype(int)
        drawn[draws] = True
        if drawn.all():
            break
    return total, drawn


@pytest.mark.parametrize("r", [0.3, -0.3, 2.75, -9.999, 1.0, -10.0, 2.0**-16, 2.0**-17, 1e-30, 100.0])
def test_of_all_draws_as_many_move_further_as_the_fraction_says(r):
    """floor(65536 f) of 65536, by one rung beyond the whole ones; a whole number always moves by itself."""
    total, drawn = moved_by(r)
    assert drawn.all()
    size = min(abs(float(np.float32(r))), 10.0)
    whole, fraction = int(size), size - int(size)
    assert set(np.abs(total)) <= {whole, whole + 1} and (total * np.sign(r) >= 0).all()
    assert (np.abs(total) == whole + 1).sum() == int(fraction * 65536)
