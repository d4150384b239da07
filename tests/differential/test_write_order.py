"""A step reads all its scalars before the first is overwritten, in whatever phase that happens."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
PRELUDE = """%one = arith.constant 1.0 : f32
  %x = dequantize %a : !altgrad.tensors<f32>
  %xe = element %x
"""


def step(signature, body, writes):
    return (f"altgrad.step @s(inout %a: !altgrad.tensors<f32>, {signature}) {{\n  {PRELUDE}{body}\n"
            f"  %x1 = collect %y : f32 to !altgrad.reals\n"
            f"  commit always %x1 to %a : !altgrad.tensors<f32>, {writes}\n}}\n")


CASES = {
    "a count that the rows of a set still read": (
        "inout %t: f32 per_tensor, inout %b: !altgrad.tensors<f32> set 1",
        """%t1 = arith.addf %t, %one : f32
  %sum = reduce sumsq %xe over tensor : f32
  %v = arith.mulf %sum, %t : f32
  %y = arith.mulf %xe, %v : f32
  %z = dequantize %b : !altgrad.tensors<f32>
  %ze = element %z
  %zt = arith.addf %ze, %t1 : f32
  %z1 = collect %zt : f32 to !altgrad.reals""",
        "%t1 to %t : f32, %z1 to %b : !altgrad.tensors<f32>"),
    "a count beside a norm per tensor": (
        "inout %t: f32 per_tensor, out %u: f32 per_tensor",
        """%t1 = arith.addf %t, %one : f32
  %sum = reduce sumsq %xe over tensor : f32
  %v = arith.mulf %sum, %t : f32
  %y = arith.mulf %xe, %v : f32""",
        "%t1 to %t : f32, %v to %u : f32"),
    "a scalar of the step that rows read": (
        "inout %s: f32, inout %u: f32 per_tensor",
        """%s1 = arith.addf %s, %one : f32
  %v = arith.mulf %u, %s : f32
  %y = arith.mulf %xe, %v : f32""",
        "%s1 to %s : f32, %v to %u : f32"),
    "an old value that is committed": (
        "inout %s: f32, inout %u: f32",
        "%s1 = arith.addf %s, %one : f32\n  %y = arith.mulf %xe, %u : f32",
        "%s1 to %s : f32, %s to %u : f32"),
    "an old value that every tensor keeps": (
        "inout %s: f32, inout %t: f32 per_tensor",
        "%s1 = arith.addf %s, %one : f32\n  %y = arith.negf %xe : f32",
        "%s1 to %s : f32, %s to %t : f32"),
    "two scalars that are exchanged": (
        "inout %s: f32, inout %u: f32", "%y = arith.mulf %xe, %u : f32",
        "%s to %u : f32, %u to %s : f32"),
}


@pytest.mark.parametrize("name", CASES)
def test_scalars_are_read_before_they_are_written(name):
    compiled = program.Program(step(*CASES[name]))
    rng = np.random.default_rng(1)
    rows = compiled.rows([[5, 300, 0, 4097], [70, 3]][:compiled.manifest["sets"]])
    values = templatecases.start_values(compiled, rows, rng, special=0)
    values |= {n: rng.random(len(values[n])).astype(np.float32) for n in ("s", "t", "u") if n in values}
    compare.run_steps(compiled, rows, [0] * len(rows.numel), values, [(0.0, {})] * 2, rng, ALL)


def test_elements_of_64_bits_between_bf16_streams():
    compiled = program.Program("""
      altgrad.step @s(inout %w: !altgrad.tensors<bf16>, in %g: !altgrad.tensors<bf16>) {
        %a = dequantize %w : !altgrad.tensors<bf16>
        %b = dequantize %g : !altgrad.tensors<bf16>
        %x = element %a
        %y = element %b
        %i = index : i64
        %j = arith.muli %i, %i : i64
        %q = arith.divf %x, %y : f32
        %s = math.sqrt %q : f32
        %r = arith.divf %y, %s : f32
        %jf = arith.sitofp %j : i64 to f32
        %rf = arith.addf %r, %jf : f32
        %c = collect %rf : f32 to !altgrad.reals
        %z = quantize %c round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
        commit always %z to %w : !altgrad.tensors<bf16>
      }""")
    rng = np.random.default_rng(2)
    rows = compiled.rows([[16, 5000]])
    values = templatecases.start_values(compiled, rows, rng)
    compare.run_steps(compiled, rows, [0, 1], values, [(0.0, {})], rng, ALL)
