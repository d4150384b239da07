"""The NumPy references are torch's optimizers bit for bit, or published formulas to rounding."""

import numpy as np
import pytest

import cases
import exact
import optimizers

torch = pytest.importorskip("torch")

CLASSES = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "adagrad": "Adagrad",
           "rmsprop": "RMSprop"}
FUSED = {"sgd", "adam", "adamw", "adagrad"}
STATES = {"exp_avg": "m", "exp_avg_sq": "v", "max_exp_avg_sq": "vmax", "momentum_buffer": "buf",
          "sum": "sum", "square_avg": "v", "grad_avg": "mean"}
TORCH = [c for c in cases.CASES if c[0] in CLASSES]
OTHERS = [c for c in cases.CASES if c[0] not in CLASSES]


def torch_run(case, n, steps=20, **path):
    """Yields (t, g, state before, state after) of the same run in torch."""
    rule, hyper, options = case
    arguments = {**optimizers.HYPER[optimizers.RULES[rule]], **hyper, **options, **path}
    arguments["weight_decay"] = arguments.pop("decay")
    arguments.pop("momentum_on", None)
    if "beta1" in arguments:
        arguments["betas"] = (arguments.pop("beta1"), arguments.pop("beta2"))
    before = cases.start(rule, options, n)
    p = torch.nn.Parameter(torch.from_numpy(before["w"].copy()))
    optimizer = getattr(torch.optim, CLASSES[rule])([p], **arguments)
    for t, g in enumerate(cases.gradients(n, steps), 1):
        p.grad = torch.from_numpy(g.copy())
        optimizer.step()
        after = {"w": p.detach().numpy().copy()}
        after |= {STATES[k]: v.numpy().copy() for k, v in optimizer.state[p].items()
                  if k != "step" and v is not None}
        yield t, g, before, after
        before = after


def assert_same_bits(case, run):
    rule, hyper, options = case
    state = None
    for t, g, before, after in run:
        state = optimizers.step(rule, state or before, hyper, t, g, **options)
        for k in state:
            differ = np.flatnonzero(state[k].view(np.int32) != after[k].view(np.int32))
            assert not len(differ), f"step {t}: {k} differs at {differ[:5]}, {len(differ)} in all"


def last_place(*terms):
    """The unit of the last place of the greatest magnitude."""
    return np.spacing(np.max(np.abs(terms), axis=0).astype(np.float32)).astype(np.float64)


def assert_close(old, got, want, moments, lr=0):
    """`moments` bounds averages of g; w and RMSprop's buffer add quotients and may be 8 off."""
    for k in got:
        terms = [old[k], got[k]]
        for buffer in {"buf", "velocity"} & set(got) if k == "w" else ():
            # may cancel against lr times a buffer that itself did
            terms += [lr * old[buffer], lr * got[buffer]]
        off = np.abs(got[k].astype(np.float64) - want[k]) / last_place(*terms)
        bound = 8 if k in ("w", "buf") else moments
        assert off.max() <= bound, f"{k} is {off.max():.1f} last places off"


@pytest.mark.parametrize("n", [1024, 1003, 5])
@pytest.mark.parametrize("case", TORCH, ids=cases.name)
def test_bit_equal_to_torch_single_tensor_with_ieee_root(case, n, monkeypatch):
    """torch's own root on the CPU (MKL's) is one ulp off for a fifth of all inputs."""
    def root(x):
        return torch.from_numpy(np.sqrt(x.detach().numpy()))
    monkeypatch.setattr(torch.Tensor, "sqrt", root)
    monkeypatch.setattr(torch.Tensor, "sqrt_", lambda x: x.copy_(root(x)))
    assert_same_bits(case, torch_run(case, n, foreach=False))


@pytest.mark.parametrize("case", [c for c in TORCH if c[0] in FUSED], ids=cases.name)
def test_bit_equal_to_torch_fused_in_its_vector_body(case):
    assert_same_bits(case, torch_run(case, 1024, fused=True))


@pytest.mark.parametrize("path", ["single", "foreach"])
@pytest.mark.parametrize("case", TORCH, ids=cases.name)
def test_one_step_from_torchs_state_is_close_with_torchs_own_root(case, path):
    rule, hyper, options = case
    for t, g, before, after in torch_run(case, 1003, foreach=path == "foreach"):
        got = optimizers.step(rule, before, hyper, t, g, **options)
        lr = {**optimizers.HYPER[optimizers.RULES[rule]], **hyper}["lr"]
        assert_close(before, got, after, moments=2, lr=lr)


@pytest.mark.parametrize("case", OTHERS, ids=cases.name)
def test_one_step_is_the_formula_to_rounding(case):
    """Rounding beta and 1 - beta costs a moment two last places; ADOPT averages quotients."""
    rule, hyper, options = case
    hyper = {**optimizers.HYPER[optimizers.RULES[rule]], **hyper}
    state = cases.start(rule, options, 5000)
    for t, g in enumerate(cases.gradients(5000, 20), 1):
        new = optimizers.step(rule, state, hyper, t, g, **options)
        assert_close(state, new, exact.step(rule, state, hyper, t, g, **options), moments=6,
                     lr=hyper.get("scale", 0))
        state = new


def test_lion_moves_by_nothing_for_zero_and_nan():
    state = {"w": np.ones(3, np.float32), "m": np.zeros(3, np.float32)}
    new = optimizers.step("lion", state, {}, 1, np.array([0.0, -0.0, np.nan], np.float32))
    assert (new["w"] == 1).all() and np.isnan(new["m"][2])


def test_lamb_without_a_norm_falls_back_to_lr():
    zero, g = np.zeros(4, np.float32), np.ones(4, np.float32)
    new = optimizers.step("lamb", {"w": zero, "m": zero, "v": zero}, {}, 1, g)
    assert np.allclose(new["w"], -1e-3, rtol=1e-5)
    still = optimizers.step("lamb", {"w": g, "m": zero, "v": zero}, dict(decay=0.0), 1, zero)
    assert (still["w"] == 1).all()
