"""Random numbers of a rule: which bits they have, how they are distributed, and that only seed, step, place and key count."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import altgrad
import altgrad.language as ag

sys.path.append(str(Path(__file__).parents[2] / "differential"))
import rounding  # noqa: E402

SHAPES = [(33, 129), (5,), (4097,), (0, 3), (), (3, 2, 5)]


@ag.rule
def drawn(p: ag.Param, g: ag.Grad, u: ag.State, z: ag.State):
    u, z = ag.random("uniform", key=2), ag.random("normal", key=31)
    return p - 0.1 * g, dict(u=u, z=z)


@ag.rule
def langevin(p: ag.Param, g: ag.Grad, *, lr=0.01, temperature=1.0):
    return p - lr / 2 * g + ag.sqrt(lr * temperature) * ag.random("normal"), {}


def params(dtypes=(torch.float32,) * 6, seed=0):
    torch.manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape, dtype in zip(SHAPES, dtypes)]


def train(optimizer, ps, steps):
    for step in steps:
        torch.manual_seed(step)
        for p in ps:
            p.grad = torch.randn(p.shape).to(p.dtype)
        optimizer.step()
    return [p.detach().clone() for p in ps]


def uniform(count, seed, step, tag, store):
    """Numbers by Philox in NumPy."""
    return (rounding.draws(np.arange(count), seed, step, tag, store, 32) >> 8).astype(np.float64) * 2.0**-24


def test_the_bits_are_those_of_seed_step_place_and_key():
    ps = params()
    optimizer = drawn.optimizer()(ps, seed=0xFEDCBA9876543210)
    for step in (1, 2):
        train(optimizer, ps, [step])
        for tag, p in enumerate(ps):
            u, v, w = (uniform(p.numel(), 0xFEDCBA9876543210, step, tag, store) for store in (192 + 4, 192 + 62, 193 + 62))
            assert np.array_equal(optimizer.state[p]["u"].flatten().double().numpy(), u)
            z = np.sqrt(-2 * np.log(1 - v)) * np.cos(np.float32(2 * np.pi) * w.astype(np.float32))
            np.testing.assert_allclose(optimizer.state[p]["z"].flatten().double().numpy(), z, rtol=5e-7, atol=1e-7)


def test_normal_numbers_have_their_moments_and_their_tails():
    p = torch.nn.Parameter(torch.zeros(1 << 21))
    optimizer = drawn.optimizer()([p], seed=1)
    p.grad = torch.zeros_like(p)
    optimizer.step()
    z, root = optimizer.state[p]["z"].double(), (1 << 21) ** 0.5
    assert abs(z.mean()) < 4 / root and abs(z.var() - 1) < 6 / root and abs((z**3).mean()) < 4 * 15**0.5 / root
    ordered = z.sort().values
    below = torch.arange(1, len(z) + 1) / len(z)
    assert (torch.special.ndtr(ordered) - below).abs().max() < 2 / root  # Kolmogorov and Smirnov
    assert (z[1:] * z[:-1]).mean().abs() < 4 / root and (z * optimizer.state[p]["u"]).mean().abs() < 4 / root


def test_threads_layouts_and_neighbours_change_nothing():
    outcomes = []
    for threads in (1, 3):
        torch.set_num_threads(threads)
        ps = params()
        outcomes.append(train(langevin.optimizer()(ps, seed=3), ps, range(3)))
    ps = params()
    turned = [torch.nn.Parameter(p.detach().t().contiguous().t()) if p.dim() == 2 else p for p in ps]
    outcomes.append(train(langevin.optimizer()(turned, seed=3), turned, range(3)))
    for other in outcomes[1:]:
        assert all(map(torch.equal, outcomes[0], other))
    ps = params()
    assert not torch.equal(outcomes[0][0], train(langevin.optimizer()(ps, seed=4), ps, range(3))[0])


def test_a_parameter_without_a_gradient_does_not_shift_the_others():
    ps = params()
    whole = train(langevin.optimizer()(ps, seed=3), ps, [0])
    ps = params()
    optimizer = langevin.optimizer()(ps, seed=3)
    torch.manual_seed(0)
    for p in ps:
        p.grad = torch.randn(p.shape)
    ps[0].grad = None
    optimizer.step()
    assert all(map(torch.equal, whole[1:], [p.detach() for p in ps[1:]]))


@pytest.mark.parametrize("storage", ["", "master=f32", "param=bf16,stochastic", "copy=ocp.e4m3fn"])
def test_a_file_goes_on_with_the_same_bits(storage):
    dtypes = [torch.bfloat16 if "param" in storage or i % 2 else torch.float32 for i in range(6)]
    Made = langevin.optimizer(storage=storage)
    ps = params(dtypes)
    whole = train(Made(ps, seed=5, max_grad_norm=1.0), ps, range(5))
    half = params(dtypes)
    first = Made(half, seed=5, max_grad_norm=1.0)
    train(first, half, range(2))
    second = Made(half, max_grad_norm=1.0)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    assert second.param_groups[0]["seed"] == 5 and int(second.param_groups[0]["draws"]) == 2
    assert all(map(torch.equal, whole, train(second, half, range(2, 5))))


def test_a_skipped_step_draws_nothing():
    ps = params()
    optimizer = langevin.optimizer()(ps, seed=5)
    scaler = altgrad.amp.GradScaler("cpu", init_scale=1.0)
    train(optimizer, ps, [0])
    ps[0].grad[0, 0] = torch.inf
    scaler.scale(torch.ones(())), scaler.step(optimizer), scaler.update()
    assert int(optimizer.param_groups[0]["draws"]) == 1


def test_what_an_option_excludes_needs_no_seed():
    text = ("rule noisy(param w, grad g, lr = 0.1, option noise)\n"
            "  w = w - lr * (g + random(normal, key=0)) if noise else w - lr * g\n")
    ps = params()
    with pytest.raises(ValueError, match="no rule has random numbers"):
        altgrad.optim.FromRule(text)(ps, seed=1)
    assert "seed" in altgrad.optim.FromRule(text, options=["noise"])(ps).param_groups[0]


def test_rules_of_groups_share_the_seed():
    Both = altgrad.optim.by_group(noisy=langevin, plain=altgrad.optim.FromRule("sgd"))
    ps, alone = params(), params()
    optimizer = Both([dict(params=ps[:3], rule="noisy"), dict(params=ps[3:], rule="plain", lr=0.1)], seed=7)
    other = langevin.optimizer()(alone[:3], seed=7)
    assert all(map(torch.equal, train(optimizer, ps, range(2))[:3], train(other, alone, range(2))[:3]))


def test_mistakes_in_words():
    def made(line):
        return altgrad.optim.FromRule("rule r(param w, grad g, lr = 0.1)\n  w = w - lr * " + line + "\n")
    for line, words in (("random(normal)", "write random.normal, key=1."), ("random(gauss, key=1)", "write random.normal, key=1."),
                        ("random(normal, key=32)", "a whole number of 0 to 31"), ("random(normal, key=0.5)", "a whole number of 0 to 31"),
                        ("randn(g)", "there is no function 'randn'; write random.normal, key=1.")):
        with pytest.raises(altgrad.Error, match=words):
            made(line)
    with pytest.raises(ag.RuleError, match='no numbers are distributed .gauss.; there are "normal" and "uniform"'):
        wrong.text


@ag.rule
def wrong(p: ag.Param, g: ag.Grad):
    return p - g * ag.random("gauss"), {}
