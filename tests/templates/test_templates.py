"""Every rule of templates/, compiled and run on the host, gives its NumPy reference's bytes."""

import numpy as np
import pytest

import cases
import optimizers

# Nothing; below and above a vector, the 256 lanes and a chunk of 4096.
SIZES = [1, 7, 256, 4096, 0, 4099, 9001]
DEVICES = ["cpu:v3", "cpu:v4"]
NAN = np.uint32(0x7FC00000)


def stored(x):
    """What a store leaves: the one NaN."""
    bits = x.view(np.uint32).copy()
    bits[np.isnan(x)] = NAN
    return bits


def misaligned(x):
    """The same values, 4 bytes off any vector's alignment."""
    room = np.zeros(len(x) + 16, np.float32)
    first = (-room.ctypes.data // 4) % 16 + 1
    room[first:first + len(x)] = x
    return room[first:first + len(x)]


def assert_same(got, want, words):
    for name in want:
        a, b = stored(got[name]), stored(want[name])
        bad = np.flatnonzero(a != b)
        assert not len(bad), (f"{words}: {name} has {len(bad)} of {len(a)} elements wrong, first "
                              f"[{bad[0]}] = {got[name][bad[0]]!r}, not {want[name][bad[0]]!r}")
        nans = got[name].view(np.uint32)[np.isnan(got[name])]
        assert (nans == NAN).all(), f"{words}: {name} holds another NaN than {NAN:#x}"


def arrange(case, sizes):
    """Tensors as the program sees them (state and gradient), the last one misaligned."""
    rule, _, options = case
    tensors = []
    for i, n in enumerate(sizes):
        arrays = {**cases.start(rule, options, n, seed=i), "g": np.zeros(n, np.float32)}
        tensors.append({k: misaligned(v) if i == len(sizes) - 1 else v for k, v in arrays.items()})
    return tensors


def follow(runner, case, tensors, gradients, first_steps, groups, hyper_of_group):
    """Runs the program and its reference side by side and compares after every step."""
    rule, _, options = case
    want = [{k: v.copy() for k, v in t.items() if k != "g"} for t in tensors]
    for step, row in enumerate(gradients):
        for tensor, g in zip(tensors, row):
            tensor["g"][:] = g
        runner.step()
        for i, tensor in enumerate(tensors):
            t = first_steps[i] + step
            h = hyper_of_group[groups[i]]
            want[i] = optimizers.step(rule, want[i], h, t, row[i], **options)
            assert_same(tensor, want[i], f"step {t}, tensor {i} of {len(row[i])}")
            assert (stored(tensor["g"]) == stored(row[i])).all(), "the gradient was written"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", cases.CASES, ids=cases.name)
def test_twenty_steps_are_the_reference_byte_for_byte(case, device, run):
    """Seven sizes in two groups with their own lr; one tensor joins at its seventh step."""
    rule, hyper, options = case
    runner, tensors = run(rule, options, device), arrange(case, SIZES)
    default = optimizers.HYPER[optimizers.RULES[rule]]
    slow = {**default, **hyper}
    rate = "lr" if "lr" in slow else "scale"
    hyper_of_group = [slow, {**slow, rate: slow[rate] * 0.37}]
    groups = [i % 2 for i in range(len(SIZES))]
    first_steps = [7 if i == 2 else 1 for i in range(len(SIZES))]
    scalars = {k: [h[k] for h in hyper_of_group] for k in slow}
    if any(s["name"] == "t" for s in runner.manifest["scalars"]):
        scalars["t"] = [t - 1 for t in first_steps]
    runner.bind(tensors, scalars, groups)
    gradients = list(zip(*(cases.gradients(n, 20, seed=100 + i) for i, n in enumerate(SIZES))))
    follow(runner, case, tensors, gradients, first_steps, groups, hyper_of_group)
    assert all(int(a[0]) == t + 19 for a, t in zip(runner.scalars.get("t", []), first_steps))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rule", sorted(optimizers.RULES))
def test_special_values_and_default_hyper_parameters(rule, device, run):
    """NaN, infinities, signed zeros and subnormals; what is not bound takes the rule's default."""
    case = (rule, {}, {})
    runner, tensors = run(rule, {}, device), arrange(case, [500, 300])
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 1e-38, 3e38, -3e38],
                       np.float32)
    runner.bind(tensors)
    gradients = [[np.resize(g, n) for n in (500, 300)] for g in cases.gradients(500, 3)]
    for row in gradients:
        row[0][::7] = np.resize(special, len(row[0][::7]))
    follow(runner, case, tensors, gradients, [1, 1], [0, 0], [{}])


@pytest.mark.parametrize("start", [0, 2**24 - 3])
def test_step_count_may_be_f32_as_torch_stores_it(start, run):
    case = ("adamw", {}, {})
    runner, tensors = run("adamw", {}, "cpu", "t=f32"), arrange(case, [300])
    runner.bind(tensors, {"t": [start]})
    gradients = [[g] for g in cases.gradients(300, 2)]
    follow(runner, case, tensors, gradients, [start + 1], [0], [{}])
    assert runner.scalars["t"][0].dtype == np.float32 and runner.scalars["t"][0] == start + 2


@pytest.mark.parametrize("options", [{}, {"nvlamb": True}])
def test_lamb_moves_by_lr_where_a_norm_is_zero(options, run):
    """No parameter, no update, neither: the ratio of norms says nothing."""
    hyper = {**optimizers.HYPER[optimizers.lamb], "decay": 0.0 if options else 0.01}
    case = ("lamb", hyper, options)
    runner, tensors = run("lamb", options, "cpu"), arrange(case, [100, 100, 100])
    tensors[0]["w"][:] = tensors[2]["w"][:] = 0
    runner.bind(tensors, {k: [v] for k, v in hyper.items()})
    ones, none = np.ones(100, np.float32), np.zeros(100, np.float32)
    follow(runner, case, tensors, [[ones, none, none]], [1, 1, 1], [0, 0, 0], [hyper])
    assert np.allclose(tensors[0]["w"], -hyper["lr"], rtol=1e-5) and (tensors[2]["w"] == 0).all()


@pytest.mark.parametrize("device", DEVICES)
def test_lamb_norms_of_more_chunks_than_lanes(device, run):
    case, n = ("lamb", {}, {}), 4096 * 257 + 5
    runner, tensors = run("lamb", {}, device), arrange(case, [n])
    runner.bind(tensors)
    follow(runner, case, tensors, [[g] for g in cases.gradients(n, 2)], [1], [0], [{}])


@pytest.mark.parametrize("case", cases.CASES, ids=cases.name)
def test_manifest_has_the_states_in_use_and_the_defaults(case, run):
    rule, _, options = case
    manifest = run(rule, options, "cpu").manifest
    streams = {s["name"] for s in manifest["streams"]}
    assert streams == {"w", "g", *optimizers.states(rule, **options)}
    defaults = {s["name"]: s["default"] for s in manifest["scalars"] if s["role"] == "hyper"}
    assert defaults == optimizers.HYPER[optimizers.RULES[rule]]
