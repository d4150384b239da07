"""Reductions of squares: host code and interpreted PTX have the bits of NumPy's folds in the one order."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import softmath

ALL = {"races": True} if ptxrun.available() else None
KINDS = {"a": ("add", "l"), "b": ("sumsq", "l"), "c": ("max", "l"), "d": ("add", "r"), "e": ("sumsq", "r")}
SHAPES = [[(1, 1), (70, 65), (3, 100), (0, 5), (64, 64)]]


def step(over, units=False):
    """Sums of two squares beside one of the elements; with `units` rows of the table are rows of matrices, whose sums each element gets."""
    lists = "".join(f"""
        %{name}r = dequantize %{name} : !altgrad.tensors<f32{per}>
        %{name}x = element %{name}r""" for name, per in (("w", ""), ("l", " per rows x rows"), ("r", " per columns x columns")))
    sums = {**KINDS, "f": ("add", "w")}
    folds = "".join(f"\n        %{name}1 = reduce {kind} %{of}x over {over} : f32" for name, (kind, of) in sums.items())
    folds += f"""
        %u = reduce max %wx over {"unit" if units else "tensor"} : f32
        %y1 = collect %u : f32 to !altgrad.reals"""
    signature = ", out %y: !altgrad.tensors<f32>" + "".join(f", out %{name}: f32{' per_tensor' * (over == 'tensor')}" for name in sums)
    commits = "%y1 to %y : !altgrad.tensors<f32>, " + ", ".join(f"%{name}1 to %{name} : f32" for name in sums)
    return f"""
      altgrad.step @s(in %w: !altgrad.tensors<f32>, in %l: !altgrad.tensors<f32 per rows x rows>,
                      in %r: !altgrad.tensors<f32 per columns x columns>{signature}) {{{lists}{folds}
        commit always {commits}
      }}"""


def expected(kind, values, rows, name):
    """Of each tensor its sum, in the shape of chunks and lanes."""
    sizes = rows.sizes(name)
    parts = np.split(values, np.cumsum(sizes)[:-1])
    return np.array([softmath.fold_chunks(kind, softmath.reduce_chunks(kind, part)) for part in parts], np.float32)


@pytest.mark.parametrize("over, special, units", [("tensor", False, False), ("tensor", True, True), ("step", False, True)])
def test_sums_of_squares_have_one_order_on_every_target(over, special, units):
    compiled = program.Program(step(over, units))
    rows, rng = compiled.rows(SHAPES), np.random.default_rng(3)
    memory = compare.Memory(compiled.signature, rows, [0] * len(rows.numel))
    values = {name: rng.standard_normal(sum(rows.sizes(name)), np.float32) for name in memory.streams}
    if special:
        values["l"][[5, 4600]] = np.nan, np.inf
    memory.fill({**{name: x.view(np.uint32) for name, x in values.items()}, **{name: 0 for name in memory.scalars}})
    firsts = [row for row in range(len(rows.numel)) if rows.begins(row)]
    for machine, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        for name, (kind, of) in KINDS.items():
            wanted = expected(kind, values[of], rows, of)[firsts]
            found = got.scalars[name][firsts] if over == "tensor" else got.scalars[name]
            wanted = wanted if over == "tensor" else np.array([softmath.reduce_step(kind, wanted)], np.float32)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{machine}, {name}: {kind} of {of}")
