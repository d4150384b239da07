"""Copies in blocks of columns beside blocks of rows, from one sweep: every byte on every path, and against NumPy."""

import numpy as np
import pytest

import compare
import mx
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
# Rows and columns: whole tiles, parts of them in both directions, one row, one column, none.
SHAPES = [(33, 160), (1, 77), (70, 32), (1, 1), (0, 64), (31, 128), (5, 0), (65, 288)]
CASES = [("adamw", "grad=bf16 copy=mxfp8,both", ["--clip"]),
         ("adamw", "param=bf16,stochastic grad=bf16 master=f32 copy=mxfp8e5m2,both,floor m=mxfp8", ["--unscale"]),
         ("lion", "copy=mxfp6e3m2,even,both m=int8:32", ["--loss-scaler=torch"]),
         ("lamb", "param=bf16,stochastic copy=mxfp8,both", []),
         # Draws, their counters and a tile are more than the shared memory of a block: some stay in registers.
         ("adamw", "param=bf16,stochastic32 states=bf16,stochastic32 copy=mxfp8,both", ["--clip"]),
         # What tiles have no place for: the copy has a sweep of its own.
         ("adamw", "copy=mxfp8,both", ["--statistics"]), ("adamw", "copy=mxfp8,both", ["--norm=l2"]),
         ("adamw", "param=bf16 grad=bf16 states=bnb8:256 copy=mxfp8,both", ["--clip", "--loss-scaler=torch", "--statistics"]),
         ("adam{amsgrad}", "param=bf16 grad=bf16 master=f32 states=torchao4:128 copy=mxfp8,both", ["--unscale"]),
         ("gridoptim", "rungs=ocp.e4m3fn copy=mxfp8,both", ["--clip"])]


def rows_of(compiled, shapes):
    rows = compiled.rows([[a * b for a, b in shapes]])
    rows.shape = [(a, b, 1) for a, b in shapes]
    rows.offset = [128 * i * 2**20 * b * (a > 0) for i, (a, b) in enumerate(shapes)]
    return rows


@pytest.mark.parametrize("rule, storage, flags", CASES, ids=lambda case: str(case))
def test_every_byte_is_the_references(rule, storage, flags):
    compiled = program.Program(program.generated(rule, storage, *flags))
    rng, rows = np.random.default_rng(12), rows_of(compiled, SHAPES)
    for shifts in ([0] * len(SHAPES), [1, 0, 3, 0, 0, 15, 2, 0]):
        values = templatecases.start_values(compiled, rows, rng, 0.01)
        compare.run_steps(compiled, rows, shifts, values, [(0.01, {}), (0.0, {})], rng, ALL)


@pytest.mark.parametrize("rule", mx.RULES)
@pytest.mark.parametrize("form", [form for form in mx.FORMATS if form != "ocp.e2m1"])  # codes of a byte
def test_codes_and_scales_against_numpy(form, rule):
    """Numbers of every exponent, zeros, infinities and NaN in rows and columns of a parameter that does not move."""
    compiled = program.Program(program.generated("sgd", f"copy={form}:32:ocp.e8m0,{rule},both"))
    numbers = mx.numbers_of_all_kinds(600, 3)[:97 * 192].reshape(97, 192)
    with np.errstate(all="ignore"):
        expected = {**dict(zip(("copy", "copy_scale"), mx.encoded(numbers.ravel(), rule, form))),
                    **dict(zip(("copy_columns", "copy_columns_scale"), mx.by_columns(numbers, rule, form)))}
    rows = rows_of(compiled, [numbers.shape])
    values = templatecases.start_values(compiled, rows, np.random.default_rng(0), 0)
    values.update(w=numbers.ravel().view(np.uint32), g=np.zeros(numbers.size, np.uint32), lr=np.zeros(1), decay=np.zeros(1))
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        for key, codes in expected.items():
            np.testing.assert_array_equal(got.streams[key].get(), codes, err_msg=f"{name} {key}")
    assert 255 in expected["copy_columns_scale"] and 254 in expected["copy_columns_scale"]


def test_rows_that_tiles_would_cut_within_a_block_are_refused():
    """One row may end in a short block; of several only whole blocks stay together."""
    compiled = program.Program(program.generated("sgd", "copy=mxfp8,both"))
    for shape, words in (((1, 48), None), ((2, 48), "rows of 48 elements, not a multiple of 32"), ((0, 48), None)):
        rows = rows_of(compiled, [shape])
        values = templatecases.start_values(compiled, rows, np.random.default_rng(0), 0)
        memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
        plan = compare.hostrun.HostPlan(compiled, "v3")
        if words:
            with pytest.raises(compare.hostrun.Failed, match=words):
                plan.bind(memory)
        else:
            plan.run(memory)
