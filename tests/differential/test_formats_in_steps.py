"""Formats given by their numbers: every code decoded, and numbers around every code encoded, in compiled steps."""

import ml_dtypes
import numpy as np
import pytest

import compare
import formats
import inputs
import program
import ptxrun
from buffers import Memory

NAMED = ("bf16", "f16", "ocp.e4m3fn", "ocp.e5m2")


def spelt(exponent, mantissa, bias, kind):
    inf = "true" if kind == "ieee" else "false"
    return (f"#altgrad.format<exponent = {exponent}, mantissa = {mantissa}, bias = {bias}, "
            f"inf = {inf}, nan = {kind}>")


def numbered():
    """Formats of 8 and 16 bits with usual and extreme biases, 0 to 127; every number is an f32."""
    for bits in (8, 16):
        for exponent in range(1, 8 if bits == 8 else 9):
            mantissa = bits - 1 - exponent
            kinds = ["none", "all_ones"] + (["ieee"] if mantissa and exponent > 1 else [])
            usual = 0 if exponent == 1 else 2 ** (exponent - 1) - 1
            for kind in kinds:
                top = 2 ** exponent - 1 - (kind == "ieee")
                lowest, highest = max(0, top - 127), min(127, 150 - mantissa)
                for bias in sorted({usual, lowest, highest, min(highest, usual + 3)}):
                    if lowest <= bias <= highest:
                        yield spelt(exponent, mantissa, bias, kind)


def step_text(form, overflow):
    kind = f"!altgrad.tensors<{form}>"
    return f"""altgrad.step @s(in %codes: {kind}, in %numbers: !altgrad.tensors<f32> set 1,
    out %decoded: !altgrad.tensors<f32>, out %encoded: {kind} set 1) {{
  %d = dequantize %codes : {kind}
  %n = dequantize %numbers : !altgrad.tensors<f32>
  %e = quantize %n round<nearest_even> overflow<{overflow}> : {kind}
  commit always %d to %decoded : !altgrad.tensors<f32>, %e to %encoded : {kind}
}}
"""


def around(form):
    """Every finite number of the format, the middles between neighbours, and f32 next to both."""
    grid = np.sort(formats.decode(form, np.arange(1 << (form.bits - 1)).astype(form.code)))
    grid = grid[np.isfinite(grid)].astype(np.float64)
    step = max(1, len(grid) // 400)
    some = np.unique(np.concatenate([grid[::step], grid[:20], grid[-20:], [2 * grid[-1] - grid[-2]]]))
    nearest = np.searchsorted(grid, some).clip(0, len(grid) - 2)
    middles = (grid[nearest] + grid[nearest + 1]) / 2
    with np.errstate(over="ignore"):
        points = np.concatenate([some, middles, [some[-1] + (grid[-1] - grid[-2]) / 2]]).astype(np.float32)
        points = np.concatenate([points, np.nextafter(points, np.float32(0)),
                                 np.nextafter(points, np.float32(np.inf)), inputs.SPECIAL])
    return np.concatenate([points, -points]).astype(np.float32)


def check(form_text, overflow):
    form = formats.named(form_text)
    compiled = program.Program(step_text(form_text, overflow))
    codes = np.arange(1 << form.bits).astype(form.code)
    if form.bits == 16:
        codes = np.concatenate([codes[::61], codes[:300], codes[-300:],
                                codes[(1 << 15) - 300:(1 << 15) + 300]])
    numbers = around(form)
    rows = compiled.rows([[len(codes)], [len(numbers)]])  # two lists that never meet
    values = {"codes": codes, "numbers": numbers.view(np.uint32),
              "decoded": np.zeros(len(codes), np.uint32),
              "encoded": np.zeros(len(numbers), form.code)}
    memory = Memory(compiled.signature, rows, [0, 0]).fill(values)
    expected = memory.twin(compare.reference(compiled, rows, values))
    for name, run in compare.executors(compiled, {"races": False} if ptxrun.available() else None):
        got = memory.twin()
        run(got)
        compare.TOTAL.add(rows)
        words = got.difference(expected)
        assert words is None, f"{form_text} {overflow}, {name}: {words}"


@pytest.mark.parametrize("form", NAMED)
def test_named(form):
    for overflow in ("nonfinite", "saturate"):
        check(form, overflow)


@pytest.mark.parametrize("form", list(numbered())[::5])
def test_numbered(form):
    check(form, "saturate")
    if "nan = none" not in form:
        check(form, "nonfinite")


@pytest.mark.parametrize("name, dtype", [("bf16", ml_dtypes.bfloat16), ("f16", np.float16),
                                         ("ocp.e5m2", ml_dtypes.float8_e5m2),
                                         ("ocp.e4m3fn", ml_dtypes.float8_e4m3fn)])
def test_the_reference_against_ml_dtypes(name, dtype):
    """Beyond overflow and NaN codes, where format.h decides otherwise."""
    form = formats.KNOWN[name]
    codes = np.arange(1 << form.bits).astype(form.code)
    theirs = codes.view(dtype).astype(np.float32)
    assert (formats.canonical(theirs).view(np.uint32)
            == formats.decode(form, codes).view(np.uint32)).all()
    rng = np.random.default_rng(0)
    numbers = np.concatenate([around(form), inputs.numbers(rng, 50000, 20, 0.05)])
    with np.errstate(all="ignore"):
        cast = numbers.astype(dtype)
    mine = formats.encode(form, numbers, "nonfinite")
    nan = np.isnan(cast.astype(np.float32))
    assert (mine[nan] == form.nan_code).all()
    assert (mine[~nan] == cast.view(form.code)[~nan]).all()


@pytest.mark.parametrize("name, number, overflow, code", [
    ("ocp.e4m3fn", 464.0, "nonfinite", 0x7e), ("ocp.e4m3fn", 464.00003, "nonfinite", 0x7f),
    ("ocp.e4m3fn", -464.00003, "nonfinite", 0x7f), ("ocp.e4m3fn", -1e30, "saturate", 0xfe),
    ("ocp.e4m3fn", np.inf, "saturate", 0x7e), ("ocp.e4m3fn", 2.0**-10, "saturate", 0),
    ("ocp.e4m3fn", 0.000977, "saturate", 1), ("ocp.e4m3fn", np.nan, "saturate", 0x7f),
    ("ocp.e5m2", 61439.996, "nonfinite", 0x7b), ("ocp.e5m2", 61440.0, "nonfinite", 0x7c),
    ("ocp.e5m2", 61440.0, "saturate", 0x7b), ("ocp.e5m2", -np.inf, "nonfinite", 0xfc),
    ("f16", 65520.0, "nonfinite", 0x7c00), ("f16", -65519.996, "nonfinite", 0xfbff),
    ("bf16", np.nan, "nonfinite", 0x7fc0), ("bf16", -0.0, "nonfinite", 0x8000)])
def test_the_reference_at_the_corners(name, number, overflow, code):
    """The corner cases that runtime/include/altgrad/format.h decides."""
    got = formats.encode(formats.KNOWN[name], np.array([number], np.float32), overflow)
    assert int(got[0]) == code
