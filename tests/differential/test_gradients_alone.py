"""Steps without a rule: gradients unscaled, checked, clipped and written back, or their norm alone."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
SETS = {"f32": ["grad=f32"], "bf16": ["grad=bf16"], "f16 to f32": ["grad=f16 copy=f32"],
        "mixed": ["grad=bf16", "grad=f32"], "copies": ["grad=bf16 copy=bf16", "grad=f32"]}
WAYS = [["--clip"], ["--clip", "--norm=l1"], ["--clip", "--norm=linf"], ["--clip", "--per-tensor"],
        ["--clip", "--norm=linf", "--per-tensor"], ["--clip-value"], ["--unscale"],
        ["--clip", "--unscale"], ["--clip", "--norm=l1", "--per-tensor", "--unscale"],
        ["--norm=l2"], ["--norm=l1", "--per-tensor"], ["--norm=linf", "--unscale"]]


def compiled(sets, flags):
    return program.Program(program.call(*[f"--set={line}" for line in sets], *flags, "--print-step"))


@pytest.mark.parametrize("flags", WAYS, ids=" ".join)
@pytest.mark.parametrize("sets", SETS.values(), ids=SETS)
def test_every_byte_is_the_references(sets, flags):
    step = compiled(sets, flags)
    rng = np.random.default_rng(3)
    rows = step.rows([[5000, 3, 0, 257], [7, 4096]][:len(sets)])
    shifts = [int(s) for s in rng.choice([0, 0, 1, 3], len(rows.numel))]
    values = templatecases.start_values(step, rows, rng, 0)
    schedule = [(0.0, {}), (0.0, {"max_norm": np.array([1e9], np.float32)}), (0.05, {}),
                (0.0, {"inv_scale": np.array([1], np.float32), "max_norm": np.array([1e30], np.float32)})]
    names = {name for name, *_ in step.signature}
    for special, scalars in schedule:
        values = templatecases.start_values(step, rows, rng, special)
        values |= {name: value for name, value in scalars.items() if name in names}
        compare.run_steps(step, rows, shifts, values, [(special, {})], rng, ALL)


@pytest.mark.parametrize("kind", ["l1", "l2", "linf"])
def test_norms_are_what_they_are_called(kind):
    """Of 3 and -4, of nothing, and of both together with 12: against plain numbers."""
    step = compiled(["grad=f32"], [f"--norm={kind}"])
    each = compiled(["grad=f32"], [f"--norm={kind}", "--per-tensor"])
    for of, wanted in (step, [{"l1": 19, "l2": 13, "linf": 12}[kind]]), (
            each, [{"l1": 7, "l2": 5, "linf": 4}[kind], 0, 12]):
        rows = of.rows([[2, 0, 1]])
        values = {"grad": np.array([3, -4, 12], np.float32).view(np.uint32),
                  "norm": np.zeros(len(wanted), np.float32)}
        memory = compare.Memory(of.signature, rows, [0, 0, 0]).fill(values)
        for name, run in compare.executors(of, ALL):
            got = memory.twin()
            run(got)
            assert got.scalars["norm"].tolist() == wanted, name


@pytest.mark.parametrize("bound, changed", [(6.0, False), (4.9, True), (np.inf, False)])
def test_what_is_within_its_bound_is_not_written(bound, changed):
    """Not even a NaN's payload would change, and -0 stays: no byte is stored."""
    step = compiled(["grad=f32"], ["--clip"])
    rows = step.rows([[4]])
    grads = np.array([3, -4, -0.0, 0], np.float32)
    memory = compare.Memory(step.signature, rows, [0]).fill({
        "grad": grads.view(np.uint32), "max_norm": np.array([bound], np.float32),
        "norm": np.zeros(1, np.float32)})
    for name, run in compare.executors(step, ALL):
        got = memory.twin()
        run(got)
        assert (got.streams["grad"].get() != grads.view(np.uint32)).any() == changed, name
