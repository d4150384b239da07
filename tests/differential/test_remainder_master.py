"""A bf16 parameter and the 16 bits that it has no room for: apex's and TransformerEngine's halves, on every path; FlashOptim's 8 bits."""

import os

import ml_dtypes
import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
STEP = """
altgrad.step @halves(in %x: !altgrad.tensors<f32>, out %c: !altgrad.tensors<bf16>, out %r: !altgrad.tensors<int16>,
                     in %w: !altgrad.tensors<bf16>, in %rest: !altgrad.tensors<int16>, out %y: !altgrad.tensors<f32>) {
  %number = dequantize %x : !altgrad.tensors<f32>
  %upper, %lower = split %number : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
  %both = join %w, %rest : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
  commit always %upper to %c : !altgrad.tensors<bf16>, %lower to %r : !altgrad.tensors<int16>,
      %both to %y : !altgrad.tensors<f32>
}
"""
NAN = np.uint32(0x7fc00000)


def split(words):
    """As the kernels of apex and TransformerEngine: int16[0] < 0 raises int16[1]."""
    halves = words.view(np.int16).reshape(-1, 2).copy()
    halves[halves[:, 0] < 0, 1] += 1
    return [np.ascontiguousarray(half).view(np.uint16) for half in halves.T[::-1]]


def join(upper, lower):
    halves = np.stack([lower.view(np.int16), upper.view(np.int16)], 1)
    halves[halves[:, 0] < 0, 1] -= 1
    return np.ascontiguousarray(halves).view(np.uint32)[:, 0]


def is_nan(words):
    return (words & 0x7fffffff) > 0x7f800000


def lows(rng):
    """All of them where asked for, else the ends of both signs and some between."""
    if os.environ.get("ALTGRAD_EVERY"):
        return np.array_split(np.arange(65536), 8192)
    ends = [0, 1, 0x3fff, 0x7ffe, 0x7fff, 0x8000, 0x8001, 0xffff]
    return [ends, rng.integers(0, 65536, 8)]


def test_halves_are_the_peers_and_the_way_back_is_exact(record_property):
    compiled, rng, count = program.Program(STEP), np.random.default_rng(3), 0
    highs = np.arange(65536, dtype=np.uint32) << 16
    for chosen in lows(rng):
        words = (highs[:, None] | np.asarray(chosen, np.uint32)).reshape(-1)
        upper, lower = split(np.where(is_nan(words), NAN, words))
        back = join(upper, lower)
        np.testing.assert_array_equal(back, np.where(is_nan(words), NAN, words))
        any_lower, any_upper = words.view(np.uint16).reshape(-1, 2).T.copy()
        both, alone = join(any_upper, any_lower), any_upper.astype(np.uint32) << 16
        number = np.where(is_nan(both), np.where(is_nan(alone), NAN, alone), both)
        for w, rest, y in ((upper, lower, back), (any_upper, any_lower, number)):
            count += len(words)
            values = dict(x=words, c=np.zeros_like(w), r=np.zeros_like(w), w=w, rest=rest, y=np.zeros_like(y))
            memory = compare.Memory(compiled.signature, compiled.rows([[len(words)]]), [0]).fill(values)
            for name, run in compare.executors(compiled, ALL if count < 2**20 else None):
                got = memory.twin()
                run(got)
                for stream, wanted in (("c", upper), ("r", lower), ("y", y)):
                    np.testing.assert_array_equal(got.streams[stream].get(), wanted, err_msg=f"{name} {stream}")
    record_property("cases", count)
    print(f"{count} pairs of halves")


def near(words):
    """FlashOptim's correction by definitions 5.6, in f64: codes, and the numbers that these are again."""
    number = words.view(np.float32).astype(np.float64)
    with np.errstate(all="ignore"):
        upper = words.view(np.float32).astype(ml_dtypes.bfloat16)
        rounded = upper.astype(np.float64)
        place = np.exp2(np.maximum(np.floor(np.log2(np.abs(rounded))), -126) - 7)  # at 0 the logarithm is -inf
        share = 127 * np.clip(2 * (number - rounded) / place, -1, 1)
        codes = np.where(np.isfinite(rounded), np.trunc(share + np.copysign(0.5, share)), 0).astype(np.int8)
        part = codes.astype(np.float32) / np.float32(127) * (place / 2)
        back = np.where(np.isfinite(rounded), upper.astype(np.float32) + part.astype(np.float32), rounded).astype(np.float32)
    return upper.view(np.uint16), codes.view(np.uint8), back


def test_corrections_are_flashoptims():
    compiled, rng = program.Program(STEP.replace("int16", "int8")), np.random.default_rng(4)
    highs = np.arange(65536, dtype=np.uint32) << 16
    words = (highs[:, None] | np.asarray([*lows(rng)[0], *rng.integers(0, 65536, 4)], np.uint32)).reshape(-1)
    words = words[~is_nan(words)]  # the other test's
    upper, codes, back = near(words)
    values = dict(x=words, c=np.zeros_like(upper), r=np.zeros_like(codes), w=upper, rest=codes, y=np.zeros_like(words))
    memory = compare.Memory(compiled.signature, compiled.rows([[len(words)]]), [0]).fill(values)
    machines = compare.executors(compiled, ALL)
    compare.agree(compiled, machines, memory, values, "corrections")
    for name, run in machines:
        got = memory.twin()
        run(got)
        for stream, wanted in (("c", upper), ("r", codes), ("y", back.view(np.uint32))):
            np.testing.assert_array_equal(got.streams[stream].get(), wanted, err_msg=f"{name} {stream}")
    finite = np.isfinite(back)
    off = np.abs(back[finite] - words.view(np.float32)[finite].astype(np.float64))
    assert (off <= np.abs(words.view(np.float32)[finite]) * 2.0**-15 + 2.0**-140).all()


CASES = [("adamw", "param=bf16 grad=bf16 master=bf16+i8 states=bf16", ["--clip"]),
         ("adamw", "param=bf16 grad=bf16 master=bf16+i8 m=f32", ["--unscale"]),
         ("lamb", "param=bf16 grad=bf16 master=bf16+i8 m=ocp.e4m3fn:64 v=f32", ["--unscale", "--statistics"]),
         ("adamw", "param=bf16 grad=bf16 master=bf16+i16", ["--clip"]),
         ("adamw", "param=bf16 grad=bf16 master=bf16+i16 m=ocp.e4m3fn:128 v=ocp.e5m2:128 copy=ocp.e4m3fn", ["--unscale", "--clip"]),
         ("lamb", "param=bf16 grad=f16 master=bf16+i16", ["--loss-scaler=torch", "--statistics"]),
         ("lion", "param=bf16 grad=bf16 master=bf16+i16 m=bf16,stochastic", ["--clip=agc"]),
         ("ademamix", "param=bf16 grad=bf16 master=bf16+i16 states=bf16", ["--clip", "--statistics"])]


@pytest.mark.parametrize("rule, storage, flags", CASES, ids=str)
def test_every_byte_is_the_references(rule, storage, flags):
    compiled = program.Program(program.generated(rule, storage, *flags))
    rng, sizes = np.random.default_rng(11), [8193, 1, 33, 0, 4096, 300]
    rows = compiled.rows([sizes])
    rows.offset = [256 * i * 2**26 for i in range(len(sizes))]
    for shifts in ([0] * len(sizes), [1, 0, 3, 0, 15, 2]):
        values = templatecases.start_values(compiled, rows, rng, 0.01)
        compare.run_steps(compiled, rows, shifts, values, [(0.01, {}), (0.0, {})], rng, ALL)
