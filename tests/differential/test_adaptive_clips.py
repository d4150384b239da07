"""Clips to a percentile of past norms and to a share of the parameters' norms, and torch's rounding: every byte."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
SETS = {"f32": ["rule=sgd"], "bf16": ["rule=adamw param=bf16 grad=bf16 states=param"],
        "two": ["rule=sgd param=f32 grad=bf16 master=f32", "rule=sgd param=f16 grad=f16"]}
WAYS = [["--clip=percentile"], ["--clip=percentile", "--per-tensor"],
        ["--clip=percentile", "--unscale", "--statistics"], ["--clip=agc"], ["--clip=agc", "--loss-scaler=torch"],
        ["--clip", "--profile=torch"], ["--clip", "--unscale", "--profile=torch"], ["--scaler", "--profile=torch"]]


def compiled(sets, flags):
    templatecases.use_rule("adamw")
    return program.Program(program.call(*[f"--set={line}" for line in sets], *flags, "--print-step",
                                        f"--rule-path={program.TEMPLATES}"))


def histories(step, rows, rng):
    """Half full, full, or with places that are none."""
    for name, _, scope, kind in step.signature:
        if kind == "history":
            count = 1 if scope == "step" else len(rows.numel)
            numbers = np.abs(rng.standard_normal((count, 101))).astype(np.float32) * 3
            numbers[:, 0] = rng.integers(0, 100, count)
            numbers[:, int(rng.choice([50, 101])):] = np.nan
            yield name, numbers


@pytest.mark.parametrize("flags", WAYS, ids=" ".join)
@pytest.mark.parametrize("sets", SETS.values(), ids=SETS)
def test_every_byte_is_the_references(sets, flags):
    step = compiled(sets, flags)
    rng = np.random.default_rng(8)
    rows = step.rows([[5000, 3, 0, 257], [7, 4096]][:len(sets)])
    names = {name for name, *_ in step.signature}
    for special, bound in ((0.0, 5), (0.0, 0.01), (0.05, 30), (0.0, 100)):
        values = templatecases.start_values(step, rows, rng, special)
        values |= dict(histories(step, rows, rng))
        more = {"max_norm": np.array([bound], np.float32), "inv_scale": np.array([0.37], np.float32)}
        values |= {name: value for name, value in more.items() if name in names}
        values = compare.run_steps(step, rows, [0, 1, 0, 3, 0, 2][:len(rows.numel)], values, [(special, {})], rng, ALL)


UNITS = {"lamb": ["rule=lamb"], "statistics": ["rule=adamw param=bf16 grad=bf16 master=f32"],
         "scales": ["rule=sgd copy=ocp.e4m3fn,delayed:5", "rule=adamw copy=nvfp4"],
         "rungs": ["rule=signsgd rungs=ocp.e4m3fn param=f32"]}


@pytest.mark.parametrize("sets", UNITS.values(), ids=UNITS)
def test_what_is_of_tensors_joins_the_chunks_of_their_units(sets):
    step = compiled(sets, ["--clip=agc-unit", "--loss-scaler=torch", "--statistics"])
    rng = np.random.default_rng(3)
    rows = step.rows([[(3, 4112), 5, (600, 16), (0, 16)], [(2, 8208), (1, 16)]][:len(sets)], groups=2, apart=4096 * 16)
    assert rows.tensor.count(4) == 600 and sum(map(rows.begins, range(len(rows.numel)))) == 4 + 2 * (len(sets) - 1)
    for special, bound in ((0.0, 0.01), (0.001, 30), (0.0, 3)):
        values = templatecases.start_values(step, rows, rng, special)
        values |= dict(histories(step, rows, rng)) | {"max_norm": np.array([bound], np.float32)}
        compare.run_steps(step, rows, [0, 1, 0, 3] * (len(rows.numel) // 4 + 1), values, [(special, {})], rng, ALL)


TILES = {"columns": ["rule=adamw copy=mxfp8,both", "rule=sgd param=bf16,stochastic copy=mxfp8e5m2,both"],
         "squares": ["rule=lamb param=bf16 grad=bf16 copy=ocp.e4m3fn:128x128"],
         "books": ["rule=adamw states=bnb8:256 copy=ocp.e4m3fn:128x128:ocp.e8m0"]}


@pytest.mark.parametrize("name", TILES)
def test_tiles_join_the_rows_of_units(name):
    """The copy has a sweep of its own, to which units are rows of one tensor; a number that waits for it lies as they do."""
    step = compiled(TILES[name], ["--clip=agc-unit", "--loss-scaler=torch"])
    length = {"columns": 32, "squares": 1, "books": 256}[name]
    shapes = [(33, 5 * length), (1, 77), (260, length), (0, 64), (2, 4096 + length)]
    rows = step.rows([shapes, [(40, 96), (3, 0)]][:len(TILES[name])], groups=2, apart=4096 * 16)
    rng = np.random.default_rng(4)
    for special, bound in ((0.0, 0.01), (0.001, 30)):
        values = templatecases.start_values(step, rows, rng, special)
        values |= {"max_norm": np.array([bound], np.float32)}
        shifts = [0] * len(rows.numel) if special else [0, 1, 0, 3] * (len(rows.numel) // 4 + 1)
        compare.run_steps(step, rows, shifts[:len(rows.numel)], values, [(special, {})], rng, ALL)


def norms_through(step, norms, percent, history=None):
    """After each gradient with one of these norms: per machine the weight's change and the history."""
    rows = step.rows([[1]])
    values = {s["name"]: np.zeros(1) for s in step.manifest["scalars"]}
    empty = np.full((1, 101), np.nan, np.float32)
    empty[:, 0] = 0
    values |= {"lr": np.ones(1), "max_norm": np.array([percent], np.float32),
               "norm_history": empty if history is None else history}
    for name, run in compare.executors(step, ALL):
        memory = compare.Memory(step.signature, rows, [0]).fill(
            {**values, "w": np.zeros(1, np.uint32), "g": np.zeros(1, np.uint32)})
        moves = []
        for norm in norms:
            memory.streams["w"].set(np.zeros(1, np.uint32))
            memory.streams["g"].set(np.array([norm], np.float32).view(np.uint32))
            run(memory)
            moves.append(-float(memory.streams["w"].get().view(np.float32)[0]))
        yield name, moves, memory.scalars["norm_history"][0]


@pytest.mark.parametrize("percent", [0, 5, 50, 99.5, 100])
def test_a_percentile_is_the_number_that_sorting_finds(percent):
    rng = np.random.default_rng(2)
    norms = np.exp(rng.standard_normal(230)).astype(np.float32)
    for name, moves, history in norms_through(compiled(["rule=sgd"], ["--clip=percentile"]), norms, percent):
        for step, (norm, moved) in enumerate(zip(norms, moves)):
            last = np.sort(norms[max(0, step - 99):step + 1])
            bound = last[min(int(percent * len(last) / 100), len(last) - 1)]
            factor = bound / norm if norm > bound else np.float32(1)
            assert moved == norm * factor, (name, step)
        assert history[0] == 30 and sorted(history[1:]) == sorted(norms[-100:]), name


def test_what_is_not_finite_is_not_remembered_and_no_place_is_beyond_the_memory():
    step = compiled(["rule=sgd"], ["--clip=percentile"])
    norms = [1.0, np.inf, 2.0, np.nan, 4.0]
    for name, moves, history in norms_through(step, norms, 100):
        assert [moves[0], moves[2], moves[4]] == [1, 2, 4] and not np.isfinite([moves[1], moves[3]]).any(), name
        assert history[:4].tolist() == [3, 1, 2, 4] and np.isnan(history[4:]).all(), name
    for place in (-3.0, 1e9, np.nan, 100.0):
        lost = np.full((1, 101), np.nan, np.float32)
        lost[:, 0] = place
        for name, _, history in norms_through(step, [1.0], 5, lost):
            assert history[:2].tolist() == [1, 1], name
