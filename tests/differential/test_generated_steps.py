"""What --unscale, --scaler and --clip put around a rule, against what they promise and not against their own text."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

EXECUTORS = {"races": True} if ptxrun.available() else None
TENSORS = {"p": [2.0, -1.0, 0.5], "g": [0.25, 8.0, -3.0]}


def after(compiled, **scalars):
    """Per machine the new parameters and scalars of `w - g` at a learning rate of 1."""
    rows = compiled.rows([[3]])
    bad = scalars.pop("bad", None)
    gradient = np.array(TENSORS["g"], np.float32)
    if bad is not None:
        gradient[1] = bad
    names = [n for n, a, _, k in compiled.signature if k.startswith("!altgrad.tensors")]
    values = {n: np.array(TENSORS["p"], np.float32).view(np.uint32) for n in names}
    values["g"] = gradient.view(np.uint32)
    for name, _, _, kind in compiled.signature:
        if name not in values:
            values[name] = np.array([scalars.get(name, 1.0 if name == "lr" else 0.0)])
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    for name, run in compare.executors(compiled, EXECUTORS):
        got = memory.twin()
        run(got)
        [weights] = [b.get().view(np.float32) for n, b in got.streams.items() if n != "g"]
        yield name, weights.tolist(), {n: float(a[0]) for n, a in got.scalars.items()}


def sgd(*flags):
    templatecases.use_rule("sgd")
    return program.Program(program.generated("sgd", "param=f32", *flags))


@pytest.mark.parametrize("bad", [None, np.inf, -np.inf, np.nan])
def test_unscale_tells_what_is_not_finite_and_then_changes_nothing(bad):
    for name, weights, scalars in after(sgd("--unscale"), bad=bad, inv_scale=0.5, found_inf=7.0):
        assert scalars["found_inf"] == (0.0 if bad is None else 1.0), name
        assert weights == ([1.875, -5.0, 2.0] if bad is None else TENSORS["p"]), name


@pytest.mark.parametrize("bad", [None, 0, 1])
def test_one_set_of_two_that_is_not_finite_stops_both(bad):
    templatecases.use_rule("sgd")
    compiled = program.Program(program.call("--set=rule=sgd", "--set=rule=sgd{maximize}", "--unscale", "--print-step",
                                            f"--rule-path={program.TEMPLATES}"))
    rows = compiled.rows([[1], [1]])
    values = {s["name"]: np.zeros(2 if s["scope"] != "step" else 1) for s in compiled.manifest["scalars"]}
    values |= {"inv_scale": np.ones(1), "lr": np.ones(2), "lr_1": np.ones(2)}
    for stream in compiled.manifest["streams"]:
        number = 2.0 if stream["role"] == "param" else np.inf if stream["set"] == bad else 0.5
        values[stream["name"]] = np.array([number], np.float32).view(np.uint32)
    memory = compare.Memory(compiled.signature, rows, [0, 0]).fill(values)
    for name, run in compare.executors(compiled, EXECUTORS):
        got = memory.twin()
        run(got)
        weights = [b.get().view(np.float32)[0] for n, b in got.streams.items() if not n.startswith("g")]
        assert weights == ([1.5, 2.5] if bad is None else [2.0, 2.0]), name
        assert got.scalars["found_inf"][0] == (bad is not None), name


@pytest.mark.parametrize("found", [0.0, 1.0])
def test_scaler_divides_and_skips_what_it_is_told_to_skip(found):
    for name, weights, scalars in after(sgd("--scaler"), grad_scale=2.0, found_inf=found):
        assert scalars["found_inf"] == found, name
        assert weights == ([1.875, -5.0, 2.0] if found == 0.0 else TENSORS["p"]), name


@pytest.mark.parametrize("bound", [1.0, 1e9])
def test_clip_bounds_the_norm_of_what_is_unscaled(bound):
    norm = np.linalg.norm(TENSORS["g"]) / 2
    share = min(1.0, bound / norm)
    for name, weights, scalars in after(sgd("--unscale", "--clip"), inv_scale=0.5, max_norm=bound):
        assert scalars["norm"] == pytest.approx(norm, rel=1e-6), name
        wanted = np.array(TENSORS["p"]) - share * np.array(TENSORS["g"]) / 2
        assert weights == pytest.approx(wanted.tolist(), rel=1e-5), name
