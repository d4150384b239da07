"""Moves of codes along their format: every code by changes of any kind, on every target, against the evaluator."""

import numpy as np
import pytest

import compare
import formats
import program
from buffers import Memory
from test_rungs import GRIDS

CHANGES = [0, -0.0, 0.25, -0.75, 1, -1, 1.5, -2.5, 6, -7, 126, -255.5, 511, 512, -1e9, np.inf, -np.inf, np.nan, -np.nan]


@pytest.mark.parametrize("how", ["round<toward_zero>", "round<nearest_even>", "round<stochastic> draw(%r : i16)"])
@pytest.mark.parametrize("grid", GRIDS)
def test_every_code(grid, how):
    """What it becomes, and what is said of it: zeros of both signs, the ends, and codes that are no numbers."""
    codes = f"!altgrad.tensors<{grid}>"
    drawn = "%r = draw seed(%seed) step(%draws) store(0) : i16" if "draw" in how else ""
    compiled = program.Program(f"""altgrad.step @s(in %w: {codes}, in %by: !altgrad.tensors<f32>, in random %seed: i64, in random %draws: i64,
    out %next: {codes}, out %said: !altgrad.tensors<f32>) {{
  %code = load %w : {codes}
  %changes = dequantize %by : !altgrad.tensors<f32>
  %x = element %changes
  {drawn}
  %c, %moved, %up, %beyond = advance_code %code by %x format<{grid}> {how} : i8
  %none = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %four = arith.constant 4.0 : f32
  %a = arith.select %moved, %one, %none : f32
  %b = arith.select %up, %two, %none : f32
  %d = arith.select %beyond, %four, %none : f32
  %ab = arith.addf %a, %b : f32
  %all = arith.addf %ab, %d : f32
  %nexts = collect %c : i8 to {codes}
  %flags = collect %all : f32 to !altgrad.reals
  commit always %nexts to %next : {codes}, %flags to %said : !altgrad.tensors<f32>
}}
""")
    count = 1 << formats.named(grid).bits
    pairs = np.arange(count * len(CHANGES))
    changes = np.array(CHANGES, np.float32)[pairs // count]
    values = {"w": (pairs % count).astype(np.uint8), "by": changes.view(np.uint32), "seed": np.array([3]), "draws": np.array([5]),
              "next": np.zeros(len(pairs), np.uint8), "said": np.zeros(len(pairs), np.uint32)}
    memory = Memory(compiled.signature, compiled.rows([[len(pairs)]]), [0]).fill(values)
    compare.agree(compiled, compare.executors(compiled, None), memory, values, f"{grid} {how}")
