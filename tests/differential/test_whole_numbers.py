"""Whole numbers, which hosts compute in integers: every pair of codes against the evaluator."""

import numpy as np
import pytest

import compare
import program
from buffers import Memory

PLACES = "format<exponent = 0, mantissa = {0}, bias = -{0}, inf = false, nan = none>"


@pytest.mark.parametrize("bits,last,bound", [(8, 127.0, 126.0), (8, 5.0, 2.0), (4, 7.0, 9.0), (8, 0.0, 300.0)])
def test_every_pair_of_codes(bits, last, bound):
    """Sums, bounds, magnitudes and choices, zeros of both signs among them, and codes too narrow for the result."""
    codes = f"!altgrad.tensors<#altgrad.{PLACES.format(bits - 1)}>"
    compiled = program.Program(f"""altgrad.step @s(in %a: {codes}, in %b: {codes}, out %sum: {codes}, out %cut: {codes},
    out %less: !altgrad.tensors<f32>) {{
  %as = dequantize %a : {codes}
  %bs = dequantize %b : {codes}
  %m = element %as
  %n = element %bs
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %last = arith.constant {last:.1f} : f32
  %bound = arith.constant {bound:.1f} : f32
  %t = arith.addf %m, %n : f32
  %s = arith.addf %t, %zero : f32
  %size = math.absf %m : f32
  %far = arith.cmpf ogt, %size, %last : f32
  %low = arith.minimumf %s, %bound : f32
  %kept = arith.select %far, %m, %low : f32
  %before = arith.cmpf olt, %t, %n : f32
  %is = arith.select %before, %one, %zero : f32
  %sums = collect %s : f32 to !altgrad.reals
  %cuts = collect %kept : f32 to !altgrad.reals
  %are = collect %is : f32 to !altgrad.reals
  %c = quantize %sums round<nearest_even> overflow<saturate> : {codes}
  %d = quantize %cuts round<nearest_even> overflow<saturate> : {codes}
  commit always %c to %sum : {codes}, %d to %cut : {codes}, %are to %less : !altgrad.tensors<f32>
}}
""")
    pairs = np.arange(1 << 2 * bits)
    values = {"a": (pairs >> bits).astype(np.uint8), "b": (pairs & (1 << bits) - 1).astype(np.uint8),
              "sum": np.zeros(len(pairs), np.uint8), "cut": np.zeros(len(pairs), np.uint8),
              "less": np.zeros(len(pairs), np.uint32)}
    memory = Memory(compiled.signature, compiled.rows([[len(pairs)]]), [0]).fill(values)
    compare.agree(compiled, compare.executors(compiled, None), memory, values, f"{bits} bits")
