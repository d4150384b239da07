"""A gradient that is absent leaves its parameter out of the step, and costs no other plan."""

import pytest
import torch

import altgrad
from altgrad import _plan

SIZES = [(5000,), (7,), (33, 5), (4096,), (0,)]
KINDS = {"AdamW": (altgrad.optim.AdamW, {}), "clip": (altgrad.optim.LAMB, {"max_grad_norm": 1.0}),
         "momentum": (altgrad.optim.SGD, {"momentum": 0.9}),
         "statistics": (altgrad.optim.AdamW, {"max_grad_norm": 1.0, "statistics": True}),
         "draws": (altgrad.optim.FromRule("adamw", storage="param=bf16,stochastic"), {"lr": 1e-2, "seed": 3}),
         "master": (altgrad.optim.FromRule("adamw", storage="master=f32"), {"lr": 1e-2}),
         "blocks": (altgrad.optim.FromRule("adamw", storage="m=ocp.e4m3fn:128"), {"lr": 1e-2}),
         "units": (altgrad.optim.AdamW, {"max_grad_norm": "agc-unit:0.1"}),
         "norms in backward": (altgrad.optim.AdamW, {"max_grad_norm": 1.0, "norm_in_backward": True})}


@pytest.fixture
def plans(monkeypatch):
    """The plans that are made."""
    made, whole = [], _plan.Plan.bind_tensors
    monkeypatch.setattr(_plan.Plan, "bind_tensors", lambda self, *a: made.append(self) or whole(self, *a))
    return made


def twins(kind):
    made, options = KINDS[kind]
    dtype = torch.bfloat16 if kind in ("draws", "master") else torch.float32
    values = [torch.randn(size).to(dtype) for size in SIZES]
    lists = [[torch.nn.Parameter(value.clone()) for value in values] for _ in range(2)]
    return lists, [made(of, **options) for of in lists]


def check(lists, optimizers):
    for pair in zip(*lists):
        assert torch.equal(*pair)
        mine, other = [optimizer.state[param] for optimizer, param in zip(optimizers, pair)]
        assert list(mine) == list(other)
        for key, value in mine.items():
            assert torch.equal(value, other[key]), key
    if optimizers[0]._measures:
        for key in optimizers[0].statistics().columns:
            assert torch.equal(*[getattr(of.statistics(), key).nan_to_num(-1.0) for of in optimizers]), key


@pytest.mark.parametrize("kind", KINDS)
def test_bits_are_those_of_a_step_without_it(kind):
    """The other one is bound anew to what has a gradient."""
    lists, optimizers = twins(kind)
    for step in range(8):
        there = [step == 0 or (step * 7 + place * 3) % 5 < 3 for place in range(len(SIZES))]
        for here, other, has in zip(*lists, there if step != 5 else [False] * len(SIZES)):
            here.grad = torch.randn_like(here) if has else None
            other.grad = here.grad.clone() if has else None
        optimizers[1]._forget()
        for optimizer in optimizers:
            optimizer.step()
        check(lists, optimizers)


def test_an_absent_parameter_is_not_touched():
    lists, (optimizer, _) = twins("AdamW")
    for param in lists[0]:
        param.grad = torch.ones_like(param)
    optimizer.step()
    param = lists[0][0]
    before = [param, *optimizer.state[param].values()]
    kept = [(value.detach().clone(), value._version) for value in before]
    param.grad = None
    optimizer.step()
    for value, (bits, version) in zip(before, kept):
        assert torch.equal(value, bits) and value._version == version


def test_an_edit_during_absence_reaches_the_master():
    lists, (optimizer, _) = twins("master")
    param = lists[0][0]
    for step in range(4):
        for of in lists[0]:
            of.grad = torch.zeros_like(of)
        if step in (1, 2):
            param.grad = None
        optimizer.step()
        if step == 1:
            with torch.no_grad():
                param.fill_(3.0)
    assert (optimizer.state[param]["master"] < 3.0).all(), "the last step has decayed it"
    assert (optimizer.state[param]["master"] > 2.9).all()


def test_experts_that_take_turns_cost_no_plan(plans):
    params = [torch.nn.Parameter(torch.randn(64)) for _ in range(64)]
    optimizer = altgrad.optim.AdamW(params, max_grad_norm=1.0)
    grads = [torch.randn_like(param) for param in params]
    for step in range(1008):
        for place, param in enumerate(params):
            param.grad = grads[place] if place // 8 == step % 8 else None
        optimizer.step()
        if step == 8:
            made = len(plans)
    assert len(plans) == made
    assert all([optimizer.state[param]["step"] == 126 for param in params])
