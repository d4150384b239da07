"""Sums over a tensor that lies on two devices: shares that are combined between phases give the bytes of the whole."""

import functools

import numpy as np
import pytest

import compare
import phaserun
import program
import ptxrun
import templatecases
from test_slices import slices_of

CHUNK = 4096
JOIN = {"sumsq": np.add, "add": np.add, "max": np.maximum, "and": np.bitwise_and}


def shares(tables, partial):
    """The word of the first row, which a test may read and write."""
    kind = np.int32 if partial["reduction"] == "and" else np.float32
    return tables.row_words.view(kind).reshape(len(tables.rows), -1)[:1, 2 * partial["word"]]


def run_together(compiled, target, memories):
    """Runs the same phases on every device, and combines their shares in between."""
    devices = [(phaserun.machine(compiled, target), ptxrun.Tables(compiled.manifest, memory)) for memory in memories]
    for on, tables in devices:
        on.map(tables)
    for number, phase in enumerate(compiled.manifest["phases"]):
        for partial in (p for p in compiled.manifest["partials"] if p["phase"] == number):
            words = [shares(tables, partial) for _, tables in devices]
            whole = functools.reduce(JOIN[partial["reduction"]], words)
            for word in words:
                word[:] = whole
        for on, tables in devices:
            on.launch(phase["symbol"], tables.parameters(phase))


@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", "sm_80", "sm_90"])
@pytest.mark.parametrize("rule, storage", [("lamb", "param=f32"), ("lamb{l2}", "param=bf16,stochastic grad=bf16 master=f32"),
                                           ("lamb", "states=bnb8:256")])
def test_norms_of_slices_are_those_of_the_whole(rule, storage, target):
    """A chunk on each device: the sum of both is the whole's, bit for bit."""
    if not phaserun.can_run(target):
        pytest.skip(f"no {target} here")
    compiled = program.Program(program.generated(rule, storage), targets=(target,), flags=["--exchange"])
    assert compiled.manifest["partials"], "LAMB has norms of each tensor"
    rng, numel = np.random.default_rng(5), CHUNK + 1905
    whole = slices_of(compiled, (1, numel), [0, numel])
    start = templatecases.start_values(compiled, whole, rng, 0)
    expected = compare.Memory(compiled.signature, whole, [0]).fill(start)
    run_together(compiled, target, [expected])
    parts = []
    for begin, end in ((0, CHUNK), (CHUNK, numel)):
        rows = slices_of(compiled, (1, numel), [begin, end])
        own = {name: slice(begin // block, -(-end // block)) for name, block in rows.blocks.items()}
        values = {name: value[own[name]] if name in own else value for name, value in start.items()}
        parts.append(compare.Memory(compiled.signature, rows, [0]).fill(values))
    run_together(compiled, target, parts)
    for stream in compiled.manifest["streams"]:
        name = stream["name"]
        got = np.concatenate([part.streams[name].get() for part in parts])
        np.testing.assert_array_equal(got, expected.streams[name].get(), err_msg=name)
