"""A value that a later sweep needs again: never read back from where it was rounded, kept back or overwritten."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
LISTS = "".join(f", in %{n}: !altgrad.tensors<f32>" for n in "bcd")
# %v costs three streams to compute and one to keep; its norm comes first, what it becomes after that.
VALUE = "".join(f"%{n}r = dequantize %{n} : !altgrad.tensors<f32>\n %{n}e = element %{n}r\n"
                for n in "bcd") + """
  %p = arith.mulf %be, %ce : f32
  %v = arith.addf %p, %de : f32
  %sum = reduce sumsq %v over tensor : f32
  %q = arith.divf %v, %sum : f32
  %vs = collect %v : f32 to !altgrad.reals
  %qs = collect %q : f32 to !altgrad.reals
"""


def agree(text, scalars=({},)):
    compiled = program.Program(text)
    rng = np.random.default_rng(3)
    rows = compiled.rows([[5, 4097, 0, 300]])
    values = templatecases.start_values(compiled, rows, rng, special=0)
    compare.run_steps(compiled, rows, [0, 0, 0, 1], values, [(0.0, s) for s in scalars], rng, ALL)


@pytest.mark.parametrize("form", ["bf16", "f16", "ocp.e4m3fn"])
def test_a_rounded_store_is_no_copy_of_the_value(form):
    kind = f"!altgrad.tensors<{form}>"
    agree(f"""altgrad.step @s(out %o: !altgrad.tensors<f32>, out %k: {kind}{LISTS}) {{ {VALUE}
      %code = quantize %vs round<nearest_even> overflow<nonfinite> : {kind}
      commit always %qs to %o : !altgrad.tensors<f32>, %code to %k : {kind}
    }}""")


def test_a_store_on_condition_is_no_copy_of_the_value():
    """Where the condition does not hold, the stream has its old content and the value is wanted all the same."""
    agree(f"""altgrad.step @s(out %o: !altgrad.tensors<f32>, inout %k: !altgrad.tensors<f32>, in %go: f32{LISTS}) {{
      {VALUE}
      %zero = arith.constant 0.0 : f32
      %goes = arith.cmpf one, %go, %zero : f32
      commit always %qs to %o : !altgrad.tensors<f32> if %goes %vs to %k : !altgrad.tensors<f32>
    }}""", [{"go": np.array([x], np.float32)} for x in (1, 0, 1)])


def test_the_second_pass_over_bf16_has_what_the_first_overwrites():
    """AVX2 does a sweep like this in two passes; the first stores %v without looking at what it held."""
    tensors = "!altgrad.tensors<bf16>"
    agree(f"""
      altgrad.rule @r(param %w: f32, grad %g: f32, state %v: f32) {{
        %v1 = mulf %g, %g : f32
        %size = math.absf %g : f32
        %root = math.sqrt %size : f32
        %d = divf %w, %root : f32
        %w1 = mulf %d, %v : f32
        altgrad.yield param(%w1) state(%v1)
      }}
      altgrad.step @s(in %g: {tensors}, inout %w: {tensors}, inout %v: {tensors}) {{
        %x = dequantize %w : {tensors}
        %y = dequantize %g : {tensors}
        %z = dequantize %v : {tensors}
        %w1, %v1 = update @r param(%x) grad(%y) state(%z) hyper()
        %c = quantize %w1 round<nearest_even> overflow<nonfinite> : {tensors}
        %k = quantize %v1 round<nearest_even> overflow<nonfinite> : {tensors}
        commit always %c to %w : {tensors}, %k to %v : {tensors}
      }}""")


def test_a_value_of_what_is_overwritten_is_kept():
    """%k is stored in the first sweep, since %v is kept; what %k was is wanted in the second, and cheap to load."""
    agree(f"""altgrad.step @s(out %o: !altgrad.tensors<f32>, inout %k: !altgrad.tensors<f32>,
        in %f: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>{LISTS}) {{ {VALUE}
      %fr = dequantize %f : !altgrad.tensors<f32>
      %fe = element %fr
      %gr = dequantize %g : !altgrad.tensors<f32>
      %ge = element %gr
      %fg = arith.addf %fe, %ge : f32
      %kr = dequantize %k : !altgrad.tensors<f32>
      %ke = element %kr
      %size = math.absf %ke : f32
      %w = arith.mulf %v, %fg : f32
      %all = reduce sumsq %w over tensor : f32
      %x = arith.divf %w, %all : f32
      %y = arith.addf %x, %size : f32
      %ys = collect %y : f32 to !altgrad.reals
      commit always %ys to %o : !altgrad.tensors<f32>, %fr to %k : !altgrad.tensors<f32>
    }}""")
