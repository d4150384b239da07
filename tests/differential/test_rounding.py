"""Rounding toward zero and by draws, on the hosts and in PTX, against fractions and Philox in NumPy."""

import numpy as np
import pytest

import compare
import formats
import inputs
import program
import ptxrun
import rounding
import templatecases
from buffers import Memory
from test_formats_in_steps import NAMED, around, numbered

ALL = {"races": True} if ptxrun.available() else None
# NaNs that an addition without a guard turns into -0 or an infinity, and what lies beside them.
TRAPS = [0x7fffffff, 0x7fff0001, 0x7f800001, 0x7f80ffff, 0xffffffff, 0xffff0001, 0xff800001, 0x7fc00000,
         0x7f800000, 0xff800000, 0x7f7fffff, 0xff7fffff, 0x7f7f0000, 0x7f7f8000, 0, 0x80000000, 1, 0x80000001]


def signature(form):
    return f"""altgrad.step @s(in %numbers: !altgrad.tensors<f32>, out %zero: !altgrad.tensors<{form}>,
    out %some: !altgrad.tensors<{form}>, in random %seed: i64, inout random %draws: i64)"""


def step_text(form, overflow, bits=16):
    """Both roundings of the same numbers; the count is the step's own."""
    kind = f"!altgrad.tensors<{form}>"
    return f"""{signature(form)} {{
  %one = arith.constant 1 : i64
  %next = arith.addi %draws, %one : i64
  %n = dequantize %numbers : !altgrad.tensors<f32>
  %z = quantize %n round<toward_zero> overflow<{overflow}> : {kind}
  %r = draw seed(%seed) step(%next) store(3) : i{bits}
  %s = quantize %n round<stochastic> draw(%r{" : i32" * (bits == 32)}) overflow<{overflow}> : {kind}
  commit always %z to %zero : {kind}, %s to %some : {kind}, %next to %draws : i64
}}
"""


def check(form_text, overflow, numbers, seed=0x123456789abcdef0, step=7, offset=0, shift=0, bits=16):
    form = formats.named(form_text)
    compiled = program.Program(step_text(form_text, overflow, bits))
    rows = compiled.rows([[len(numbers)]])
    rows.offset, rows.tag = [offset], [0xABCDEF]
    values = {"numbers": numbers.view(np.uint32), "zero": np.zeros(len(numbers), form.code),
              "some": np.zeros(len(numbers), form.code), "seed": np.array([seed]), "draws": np.array([step])}
    memory = Memory(compiled.signature, rows, [shift]).fill(values)
    compare.agree(compiled, compare.executors(compiled, ALL), memory, values, f"{form_text} {overflow}")


def points(form):
    numbers = np.concatenate([around(form), np.array(TRAPS, np.uint32).view(np.float32)])
    return np.concatenate([numbers, np.repeat(numbers[:: len(numbers) // 97], 8)])


# A code book has the nearest number alone.
@pytest.mark.parametrize("form", [name for name in NAMED if not formats.named(name).book])
def test_named(form):
    for overflow in ("saturate", "nonfinite")[:1 + (formats.named(form).nan != "none")]:
        check(form, overflow, points(formats.named(form)))


@pytest.mark.parametrize("form", list(numbered())[::61])
def test_numbered(form):
    check(form, "saturate", points(formats.named(form)))
    if "nan = none" not in form:
        check(form, "nonfinite", points(formats.named(form)))


# Each way to a code: exponents of f32, fewer, steps of one size, no zero, a complement.
@pytest.mark.parametrize("form", ["bf16", "f16", "ocp.e4m3fn", "ocp.e5m2", "ocp.e8m0", "ocp.e2m1", "altgrad.e0m15",
                                  "altgrad.e7m0", "int8", "int16", "uint8", *list(numbered())[::397]])
def test_draws_of_32_bits(form):
    """Every format, at its codes, between them and beyond them."""
    check(form, "saturate", points(formats.named(form)), bits=32)


@pytest.mark.parametrize("offset", [1, 7, 8, 2**32 * 8 - 12, 2**44 - 9003])
def test_draws_follow_the_global_index(offset):
    """Chunks and vectors that begin within a call, carries into the counter's second word, views off alignment."""
    numbers = np.random.default_rng(1).standard_normal(9001).astype(np.float32)
    for shift in (0, 1):
        check("bf16", "nonfinite", numbers, offset=offset, shift=shift)
        check("ocp.e4m3fn", "saturate", numbers, offset=offset, shift=shift, seed=-1, step=2**32 - 3)
        check("ocp.e4m3fn", "saturate", numbers, offset=offset, shift=shift, bits=32)


@pytest.mark.parametrize("bits", [16, 32])
def test_shards_draw_what_the_whole_draws(bits):
    """A tensor in three rows with offsets: the bytes of one row."""
    numbers = np.random.default_rng(2).standard_normal(6000).astype(np.float32)
    compiled = program.Program(step_text("f16", "nonfinite", bits))
    outcome = []
    for ends in ([6000], [1003, 4100, 6000]):
        first = [0, *ends[:-1]]
        rows = compiled.rows([[end - begin for begin, end in zip(first, ends)]])
        rows.offset, rows.tag = first, [5] * len(ends)
        values = {"numbers": numbers.view(np.uint32), "zero": np.zeros(6000, np.uint16),
                  "some": np.zeros(6000, np.uint16), "seed": np.array([11]), "draws": np.array([0])}
        memory = Memory(compiled.signature, rows, [0] * len(ends)).fill(values)
        for _, run in compare.executors(compiled, ALL):
            got = memory.twin()
            run(got)
            outcome.append(got.values()["some"])
    assert len(outcome) > 2 and all((one == outcome[0]).all() for one in outcome)


@pytest.mark.parametrize("rule, storage", [
    ("adamw", "param=bf16,stochastic states=param"), ("adamw", "param=bf16,stochastic m=ocp.e4m3fn,toward_zero v=f32"),
    ("adamw", "param=f16,stochastic,saturate master=f32 states=bf16,stochastic copy=ocp.e5m2,stochastic"),
    ("sgd", "param=ocp.e5m2,stochastic"), ("lion", "param=bf16,stochastic m=bf16,stochastic"),
    ("lamb", "param=bf16,stochastic states=param,stochastic"),
    ("adamw", "param=bf16,stochastic32 grad=bf16 m=ocp.e4m3fn,stochastic32 v=bf16,stochastic"),
    ("adamw", "param=bf16,stochastic grad=bf16 states=ocp.e5m2:128,stochastic32 copy=mxfp8,stochastic32"),
    ("lion", "rungs=ocp.e4m3fn,stochastic32 m=f16,stochastic32")])
def test_generated_steps(rule, storage):
    """Several stores of an element with draws of their own, in a second step too; a rule with and one without a count."""
    compiled = program.Program(program.generated(rule, storage, *["--clip"] * (rule == "adamw")))
    rng = np.random.default_rng(5)
    rows = compiled.rows([[5000, 1, 0, 263, 4096]])
    values = templatecases.start_values(compiled, rows, rng, 0.01)
    values["seed"] = np.array([0x0123456789ABCDEF])
    compare.run_steps(compiled, rows, [0, 0, 0, 1, 3], values, [(0.01, {}), (0.0, {})], rng, ALL)


def test_known_answers():
    """Random123's kat_vectors, ten rounds."""
    pi = [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], [0xa4093822, 0x299f31d0]
    ones = [0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2
    for (counter, key), words in (
            (([0] * 4, [0] * 2), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
            (ones, "408f276d 41c83b0e a20bc7c6 6d5451fd"), (pi, "d16cfe09 94fdcceb 5001e420 24126ea1")):
        assert " ".join(f"{int(word):08x}" for word in rounding.philox(counter, key)) == words


def test_counters_never_collide():
    """Call, step, tag and store at the ends and in the middle of their ranges: as many counters as combinations."""
    seen, combinations = set(), 0
    ends = lambda bits: [0, 1, 2**(bits // 2), 2**(bits - 1), 2**bits - 1]
    calls = np.array([n for e in ends(41) for n in (e, e ^ 3)], np.uint64)
    for step in ends(32):
        for tag in ends(24):
            for store in ends(8):
                words = rounding.counter(calls * np.uint64(8), step, tag, store)
                seen.update(zip(*(word.tolist() for word in words)))
                combinations += len(set(calls.tolist()))
    assert len(seen) == combinations
