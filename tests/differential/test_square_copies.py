"""Copies in blocks of 128 x 128, from the sweep of an update: every byte on every path, and against NumPy."""

import numpy as np
import pytest

import compare
import mx
import program
import templatecases
from test_column_copies import ALL, rows_of

# Rows and columns: a whole block, edges of it in both directions, one row, one column, none.
SHAPES = [(130, 136), (1, 177), (128, 128), (129, 1), (0, 64), (31, 128), (5, 0), (3, 131)]
CASES = [("adamw", "grad=bf16 copy=ocp.e4m3fn:128x128", ["--clip"]),
         ("adamw", "param=bf16,stochastic grad=bf16 master=f32 copy=ocp.e5m2:128x128,pow2 m=bnb8:128", ["--unscale"]),
         ("lion", "copy=ocp.e4m3fn:128x128:ocp.e8m0,even,toward_zero", ["--loss-scaler=torch"]),
         ("lamb", "param=bf16,stochastic copy=ocp.e3m2:128x128", []),
         # A sweep of its own for the copy.
         ("adamw", "param=bf16 grad=bf16 states=f32 copy=ocp.e4m3fn:128x128", ["--clip", "--loss-scaler=torch", "--statistics"]),
         ("adamw", "states=bnb8:256 copy=ocp.e4m3fn:128x128", []), ("lion", "m=torchao4:128 copy=ocp.e5m2:128x128", ["--norm=l1"]),
         ("gridoptim", "rungs=ocp.e4m3fn copy=ocp.e4m3fn:128x128", [])]


@pytest.mark.parametrize("rule, storage, flags", CASES, ids=lambda case: str(case))
def test_every_byte_is_the_references(rule, storage, flags):
    compiled = program.Program(program.generated(rule, storage, *flags))
    shapes = [(a, b - b % 128 if "bnb8:128" in storage and a > 1 else b) for a, b in SHAPES]
    rng, rows = np.random.default_rng(12), rows_of(compiled, shapes)
    for shifts in ([0] * len(shapes), [1, 0, 3, 0, 0, 15, 2, 0]):
        values = templatecases.start_values(compiled, rows, rng, 0.01)
        compare.run_steps(compiled, rows, shifts, values, [(0.01, {}), (0.0, {})], rng, ALL)


def numbers():
    """A matrix of 2 x 3 blocks, and a row with many: magnitudes of all kinds in each, zeros, what is not finite."""
    rng = np.random.default_rng(3)
    row = mx.numbers_of_all_kinds(4 * 90, 5)[None]
    block = np.arange(131)[:, None] // 128 * 3 + np.arange(300) // 128
    with np.errstate(all="ignore"):
        made = np.ldexp(rng.uniform(-1, 1, block.shape), np.array([0, -140, 120, -126, -60, 3])[block]).astype(np.float32)
    made[5, 5], made[0, 299], made[130, 200], row[0, 300] = 448, np.nan, np.inf, np.finfo(np.float32).max
    row[0, 1024:1152] *= 0
    return made, row


def check(compiled, storage, given):
    form, words = storage.split("=")[1].split(":")[0], storage.partition("128x128")[2]
    with np.errstate(all="ignore"):
        expected = [mx.by_squares(one, form, words.partition(",")[2] if "e8m0" in words else None, "pow2" in words)
                    for one in given]
    rows = rows_of(compiled, [one.shape for one in given])
    values = templatecases.start_values(compiled, rows, np.random.default_rng(0), 0)
    bits = np.concatenate([one.ravel() for one in given]).view(np.uint32)
    values.update({"w": bits, "g": np.zeros(bits.size, np.uint32), "lr": np.zeros(1), "decay": np.zeros(1)} if "w" in values
                  else {"grad": bits, "grad_scale": np.ones(1)})
    memory = compare.Memory(compiled.signature, rows, [0] * len(given)).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        for key, parts in zip(("copy", "copy_scale"), zip(*expected)):
            np.testing.assert_array_equal(got.streams[key].get(), np.concatenate(parts), err_msg=f"{name} {key}")
    return expected


@pytest.mark.parametrize("form, words", [
    *(("ocp.e4m3fn", words) for words in ("", ",pow2", *(":ocp.e8m0," + rule for rule in mx.RULES))),
    ("ocp.e5m2", ""), ("ocp.e5m2", ",pow2"), ("ocp.e2m3", "")])
def test_codes_and_scales_against_numpy(form, words):
    """Of a parameter that does not move."""
    storage = f"copy={form}:128x128{words}"
    (_, of_matrix), (_, of_row) = check(program.Program(program.generated("sgd", storage)), storage, numbers())
    assert len(of_matrix) == 6 and len(of_row) == 90 and len(set(of_row.tolist())) > 60


@pytest.mark.parametrize("words", ["", ",pow2", ":ocp.e8m0,floor"])
def test_what_a_copy_begins_with_is_the_same(words):
    """A set without a rule."""
    storage = f"copy=ocp.e4m3fn:128x128{words}"
    text = program.call(f"--set=grad=f32 {storage}", "--quantize=ocp.e4m3fn", "--print-step")
    check(program.Program(text), storage, numbers())
