"""A tensor that is cut into slices gets the bytes of the whole: rules, rounding, states in blocks, blocks over rows."""

import numpy as np
import pytest

import compare
import program
import templatecases
from test_column_copies import ALL

# Rule, storage, flags; what a cut is a multiple of; rows and columns of the whole.
CASES = {
    "elements": ("adamw", "param=bf16 grad=bf16 master=f32", ["--loss-scaler=torch"], 4096, (1, 9001)),
    "rounding": ("adamw", "param=bf16,stochastic grad=f32 states=bf16,stochastic32", [], 4096, (1, 9001)),
    "anywhere": ("lion", "param=bf16,stochastic grad=bf16 m=f16,stochastic", [], 7, (100, 90)),
    "blocks": ("adamw", "states=bnb8:256", [], 256, (90, 100)),
    "packed": ("adamw", "param=bf16 master=f32 states=torchao4:128", [], 128, (90, 100)),
    "columns": ("adamw", "grad=bf16 copy=mxfp8,both", [], 32 * 96, (100, 96)),
    "squares": ("lion", "param=bf16,stochastic copy=ocp.e4m3fn:128x128", [], 128 * 33, (300, 33)),
}


def cut(rng, numel, multiple, parts):
    """Where slices begin and end: multiples, or the end; some are empty."""
    inner = multiple * rng.integers(0, numel // multiple + 1, parts - 1)
    return [0, *sorted(inner.tolist()), numel]


def slices_of(compiled, shape, ends):
    """Rows for a whole that is cut there; all of its rows have its group and tag."""
    rows = compiled.rows([[end - begin for begin, end in zip(ends, ends[1:])]])
    count, (height, length) = len(ends) - 1, shape
    rows.offset, rows.tag, rows.whole = ends[:-1], [5] * count, [(height, length, 1)] * count
    rows.shape = [(n // length, length, 1) if height > 1 and begin % length == n % length == 0 else (1, n, 1)
                  for begin, n in zip(ends, rows.numel)]
    return rows


def in_slices(compiled, rows, values):
    """The values of a whole for all of its slices: what is of the tensor is of each."""
    tensors = {s["name"] for s in compiled.manifest["scalars"] if s["scope"] == "tensor"}
    return {name: np.repeat(value, len(rows.numel), axis=0) if name in tensors else value
            for name, value in values.items()}


@pytest.mark.parametrize("name", CASES)
def test_slices_get_the_bytes_of_the_whole(name):
    rule, storage, flags, multiple, shape = CASES[name]
    compiled = program.Program(program.generated(rule, storage, *flags))
    rng, numel = np.random.default_rng(len(name)), shape[0] * shape[1]
    whole = slices_of(compiled, shape, [0, numel])
    start = templatecases.start_values(compiled, whole, rng, 0)
    machines = compare.executors(compiled, ALL)
    expected = compare.Memory(compiled.signature, whole, [0]).fill(start)
    machines[0][1](expected)
    for parts in (1, 2, 3, 5):
        rows = slices_of(compiled, shape, cut(rng, numel, multiple, parts))
        memory = compare.Memory(compiled.signature, rows, [0, 1, 3, 0, 2][:parts]).fill(in_slices(compiled, rows, start))
        for machine, run in machines:
            got = memory.twin()
            run(got)
            for stream in compiled.manifest["streams"]:
                np.testing.assert_array_equal(got.streams[stream["name"]].get(), expected.streams[stream["name"]].get(),
                                              err_msg=f"{machine}, {rows.numel}: {stream['name']}")


def test_a_rule_asks_for_the_shape_of_the_whole():
    """sqrt(max(1, rows / columns)), as Muon scales its updates."""
    compiled = program.Program("""
      altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
        %wr = dequantize %w : !altgrad.tensors<f32>
        %we = element %wr
        %r = dim rows : i64
        %c = dim columns : i64
        %rf = arith.sitofp %r : i64 to f64
        %cf = arith.sitofp %c : i64 to f64
        %ratio = arith.divf %rf, %cf : f64
        %one = arith.constant 1.0 : f64
        %most = arith.maximumf %ratio, %one : f64
        %root = math.sqrt %most : f64
        %factor = arith.truncf %root : f64 to f32
        %new = arith.mulf %we, %factor : f32
        %w1 = collect %new : f32 to !altgrad.reals
        commit always %w1 to %w : !altgrad.tensors<f32>
      }""")
    numbers = np.random.default_rng(0).standard_normal(5000).astype(np.float32)
    rows = slices_of(compiled, (100, 50), [0, 50, 1234, 5000])
    memory = compare.Memory(compiled.signature, rows, [0] * 3).fill({"w": numbers.view(np.uint32)})
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        np.testing.assert_array_equal(got.streams["w"].get().view(np.float32), numbers * np.float32(np.sqrt(2)), err_msg=name)
