"""Of all 65536 draws exactly as many round away as 65536ths of the way to the next code lie behind a number.

The draws are a stream here, so the host code takes each of them; PTX takes those on both sides of the turn.
By hand, for every fraction: ALTGRAD_EVERY=1.
"""

import os

import numpy as np
import pytest

import compare
import formats
import program
import ptxrun
import rounding
from buffers import Memory
from test_rounding import step_text

STRIDE = int(os.environ.get("ALTGRAD_EVERY", "8191"))
DRAWS = np.arange(65536, dtype=np.uint16)
TOGETHER = 16


def text(form):
    kind = f"!altgrad.tensors<{form}>"
    return f"""altgrad.step @s(in %numbers: !altgrad.tensors<f32>, in %bits: !altgrad.tensors<bf16>,
    out %codes: {kind}) {{
  %n = dequantize %numbers : !altgrad.tensors<f32>
  %r = load %bits : !altgrad.tensors<bf16>
  %s = quantize %n round<stochastic> draw(%r) overflow<saturate> : {kind}
  commit always %s to %codes : {kind}
}}
"""


class Rounder:
    """The codes of numbers under draws, element by element, on every machine."""

    def __init__(self, form):
        self.form, self.compiled = formats.named(form), program.Program(text(form))

    def codes(self, numbers, draws, ptx):
        rows = self.compiled.rows([[len(numbers)]])
        values = {"numbers": numbers, "bits": draws, "codes": np.zeros(len(numbers), self.form.code)}
        start = Memory(self.compiled.signature, rows, [0]).fill(values)
        for name, run in compare.executors(self.compiled, ptx):
            memory = start.twin()
            run(memory)
            compare.TOTAL.add(rows)
            yield name, memory.values()["codes"].astype(np.int64)


def ways(form, numbers):
    """(code below, whole 65536ths of the way to the next), in f64, which is exact here."""
    values = formats._table(form)
    grid = values[np.isfinite(values)]
    x = np.abs(numbers.view(np.float32).astype(np.float64))
    low = np.searchsorted(grid, x, side="right") - 1
    return low, np.floor((x - grid[low]) / (grid[low + 1] - grid[low]) * 65536).astype(np.int64)


def samples(name):
    """Numbers between codes: every STRIDE-th fraction behind a few exponents, and subnormal numbers."""
    if name == "bf16":
        exponents, tail = (0, 1, 127, 253), 16
    elif name == "f16":
        exponents, tail = (103, 112, 113, 127, 141), 13
    else:
        low = {"ocp.e4m3fn": 121, "ocp.e5m2": 113}[name]
        exponents, tail = (low - 6, low - 3, low - 1, low, 127, 133), {"ocp.e4m3fn": 20, "ocp.e5m2": 21}[name]
    rng = np.random.default_rng(3)
    for exponent in exponents:
        fractions = np.arange(0, 1 << tail, max(1, STRIDE << tail >> 16), dtype=np.uint32)
        first = rng.integers(0, 1 << (23 - tail), len(fractions), dtype=np.uint32)
        yield np.uint32(exponent << 23) | first << np.uint32(tail) | fractions


@pytest.mark.parametrize("name", ["bf16", "f16", "ocp.e4m3fn", "ocp.e5m2"])
def test_as_many_draws_as_the_fraction(name):
    rounder = Rounder(name)
    for numbers in samples(name):
        low, way = ways(rounder.form, numbers)
        for first in range(0, len(numbers), TOGETHER):
            some = slice(first, first + TOGETHER)
            each = numbers[some].repeat(65536)
            for machine, codes in rounder.codes(each, np.tile(DRAWS, len(numbers[some])), None):
                up = codes.reshape(-1, 65536) - low[some, None]
                assert up.min() >= 0 and up.max() <= 1, (name, machine)
                assert (up.sum(1) == way[some]).all(), (name, machine)
                assert (np.diff(up, axis=1) >= 0).all(), (name, machine)


@pytest.mark.skipif(not ptxrun.available(), reason="no ptxinterp")
@pytest.mark.parametrize("name", ["bf16", "f16", "ocp.e4m3fn", "ocp.e5m2"])
def test_the_turn_in_ptx(name):
    """The largest draw that stays and the smallest that goes, the first and the last, with both signs."""
    rounder = Rounder(name)
    for numbers in samples(name):
        numbers = numbers[:: max(1, len(numbers) // 200)]
        numbers = np.concatenate([numbers, numbers | np.uint32(1 << 31)])
        low, way = ways(rounder.form, numbers)
        for draw, up in ((65535 - way, 0), (np.minimum(65536 - way, 65535), way > 0), (0 * way, 0), (0 * way + 65535, way > 0)):
            for machine, codes in rounder.codes(numbers, draw.astype(np.uint16), {"races": False}):
                magnitude = codes & ((1 << (rounder.form.bits - 1)) - 1)
                assert (magnitude - low == up).all(), (name, machine)


def turning(form, count):
    """Numbers that a draw of 32 bits just takes to the next code, those just below, and the code that they lie above.

    The draws are Philox's, so each number is made for its own: below it, f of the way on, lie as many draws as stay.
    """
    rng = np.random.default_rng(4)
    values = formats._table(form)
    grid = values[np.isfinite(values)]
    low = np.where(rng.random(count) < 0.3, rng.integers(0, 4, count), rng.integers(0, len(grid) - 1, count))
    drawn = rounding.draws(np.arange(count), 11, 1, 0, 3, 32).astype(np.int64)
    turn = grid[low] + (2.0**32 - drawn) / 2.0**32 * (grid[low + 1] - grid[low])
    goes = turn.astype(np.float32)
    goes = np.where(goes < turn, np.nextafter(goes, np.float32(np.inf)), goes)
    stays = np.nextafter(goes, np.float32(0))
    sure = (goes < grid[low + 1]) & (stays >= grid[low])
    return goes, stays, low, sure


@pytest.mark.parametrize("name", ["bf16", "f16", "ocp.e4m3fn", "ocp.e5m2", "ocp.e2m1", "altgrad.e0m7", "altgrad.e3m12"])
def test_draws_of_32_bits_turn_at_the_fraction(name):
    """A number goes from exactly 2^32 less its fraction on, whose last bits are f32's: no draw in between does both."""
    form, count = formats.named(name), 20000 if STRIDE > 1 else 4000000
    compiled = program.Program(step_text(name, "saturate", 32))
    rows = compiled.rows([[count]])
    goes, stays, low, sure = turning(form, count)
    assert sure.mean() > 0.9
    for numbers, up in ((goes, 1), (stays, 0), (-goes, 1), (-stays, 0)):
        values = {"numbers": numbers.view(np.uint32), "zero": np.zeros(count, form.code), "some": np.zeros(count, form.code),
                  "seed": np.array([11]), "draws": np.array([0])}
        start = Memory(compiled.signature, rows, [0]).fill(values)
        for machine, run in compare.executors(compiled, {"races": False} if ptxrun.available() and STRIDE > 1 else None):
            memory = start.twin()
            run(memory)
            compare.TOTAL.add(rows)
            magnitude = memory.values()["some"].astype(np.int64) & (form.magnitudes - 1)
            assert (magnitude == low + up)[sure].all(), (machine, up)
