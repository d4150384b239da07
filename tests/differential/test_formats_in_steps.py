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

NAMED = [name for name in formats.KNOWN if name != "f32"]


def spelt(exponent, mantissa, bias, kind, more=""):
    inf = "true" if kind == "ieee" else "false"
    return (f"#altgrad.format<exponent = {exponent}, mantissa = {mantissa}, bias = {bias}, "
            f"inf = {inf}, nan = {kind}{more}>")


def biases(exponent, mantissa, kind, zero=True):
    """The usual ones and the extremes: every number is an f32."""
    usual = 0 if exponent <= 1 else 2 ** (exponent - 1) - 1
    full = 1 << (exponent + mantissa)
    largest = {"none": full - 1, "all_ones": full - 2, "ieee": full - (1 << mantissa) - 1}[kind]
    lowest = (largest >> mantissa) - 127 if exponent else -127
    highest = (150 if exponent and zero else 149) - mantissa
    return sorted({b for b in (usual, lowest, highest, usual + 3, -usual, lowest + 20, highest - 20, 127, 128)
                   if lowest <= b <= highest})


def numbered():
    """Formats of 2 to 16 bits, with and without a sign."""
    for bits in (2, 3, 4, 6, 7, 8, 9, 12, 16):
        for signed in (True, False):
            for exponent in range(0, min(8, bits - signed) + 1):
                mantissa = bits - signed - exponent
                kinds = ["none"] + ["all_ones"] * (bits - signed > 1) + ["ieee"] * (mantissa and exponent > 0)
                for kind in kinds:
                    for bias in biases(exponent, mantissa, kind):
                        yield spelt(exponent, mantissa, bias, kind, "" if signed else ", signed = false")


def rare():
    """Powers of two with every kind of tie, scales, two's complement."""
    for exponent in (2, 4, 8):
        for ties in ("down", "up"):
            for bias in biases(exponent, 0, "all_ones"):
                yield spelt(exponent, 0, bias, "all_ones", f", ties = {ties}")
        for ties in ("", ", ties = down", ", ties = up"):
            for bias in biases(exponent, 0, "all_ones", zero=False):
                yield spelt(exponent, 0, bias, "all_ones", f", signed = false, zero = false{ties}")
    for mantissa in (1, 3, 7, 11, 15):
        for bias in biases(0, mantissa, "none"):
            yield spelt(0, mantissa, bias, "none", ", complement = true")


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


def strata():
    """4,096 floats: of every exponent with every start of the mantissa, either sign."""
    starts = np.arange(2**12, dtype=np.uint32) << 20
    return (starts | np.random.default_rng(5).integers(0, 2**20, 2**12, dtype=np.uint32)).view(np.float32)


def around(form):
    """Every finite number of the format, the middles between neighbours, f32 next to both, and strata."""
    grid = np.unique(np.abs(formats.decode(form, np.arange(1 << form.bits).astype(form.code))))
    grid = grid[np.isfinite(grid)].astype(np.float64)
    grid = np.concatenate([[0.0], grid[grid > 0]])
    step = max(1, len(grid) // 400)
    some = np.unique(np.concatenate([grid[::step], grid[:20], grid[-20:], [2 * grid[-1] - grid[-2]]]))
    nearest = np.searchsorted(grid, some).clip(0, len(grid) - 2)
    middles = (grid[nearest] + grid[nearest + 1]) / 2
    with np.errstate(over="ignore"):
        points = np.concatenate([some, middles, [some[-1] + (grid[-1] - grid[-2]) / 2, 1.5 * some[-1]]])
        points = np.concatenate([points, some / 2]).astype(np.float32)
        points = np.concatenate([points, np.nextafter(points, np.float32(0)),
                                 np.nextafter(points, np.float32(np.inf)), inputs.SPECIAL])
    return np.concatenate([points, -points, strata()]).astype(np.float32)


def check(form_text, overflow):
    form = formats.named(form_text)
    compiled = program.Program(step_text(form_text, overflow))
    codes = np.arange(1 << 8 * form.code().itemsize).astype(form.code)  # what lies above a code too
    if form.bits > 8:
        codes = np.concatenate([codes[::61], codes[:300], codes[-300:],
                                codes[(1 << 15) - 300:(1 << 15) + 300]])
    numbers = around(form)
    rows = compiled.rows([[len(codes)], [len(numbers)]])  # two lists that never meet
    values = {"codes": codes, "numbers": numbers.view(np.uint32),
              "decoded": np.zeros(len(codes), np.uint32),
              "encoded": np.zeros(len(numbers), form.code)}
    memory = Memory(compiled.signature, rows, [0, 0]).fill(values)
    machines = compare.executors(compiled, {"races": False} if ptxrun.available() else None)
    compare.agree(compiled, machines, memory, values, f"{form_text} {overflow}")


def check_modes(form_text):
    check(form_text, "saturate")
    if formats.named(form_text).nan != "none":
        check(form_text, "nonfinite")


@pytest.mark.parametrize("form", NAMED)
def test_named(form):
    check_modes(form)


@pytest.mark.parametrize("form", list(numbered())[::47])
def test_numbered(form):
    check_modes(form)


@pytest.mark.parametrize("form", list(rare())[::5])
def test_rare(form):
    check_modes(form)


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
