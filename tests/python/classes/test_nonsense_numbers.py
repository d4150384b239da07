"""Rates and other numbers that are none, or make no sense, are refused in words."""

import copy
import math

import pytest
import torch
import twins

import altgrad

RULE = altgrad.optim.FromRule("adamw")


@pytest.mark.parametrize("words, error, match", [
    (dict(lr=-1.0), ValueError, "Invalid learning rate: -1.0"), (dict(lr=math.nan), ValueError, "Invalid learning"),
    (dict(eps=math.nan), ValueError, "Invalid eps value: nan"), (dict(lr="0.001"), TypeError, "lr is '0.001'"),
    (dict(beta1=0.5j), TypeError, "beta1 is 0.5j, not a number")])
def test_a_rule_of_ones_own(words, error, match):
    params, = twins.make([(5,)], count=1)
    with pytest.raises(error, match=match):
        RULE(params, **words)
    assert RULE(params, lr=0.0)


@pytest.mark.parametrize("value", ["0.001", 1j, torch.tensor(0.2 + 0j), torch.tensor(0.1, device="meta"), None])
@pytest.mark.parametrize("key", ["lr", "weight_decay"])
def test_what_a_group_is_given_later(key, value):
    params, = twins.make([(5,)], count=1)
    optimizer = altgrad.optim.AdamW(params, lr=0.1)
    twins.give_grads(params)
    optimizer.step()
    before = params[0].detach().clone()
    optimizer.param_groups[0][key] = value
    with pytest.raises(TypeError, match=f"{key} is .*, not a number"):
        optimizer.step()
    assert torch.equal(before, params[0])
    optimizer.param_groups[0][key] = 0.1
    optimizer.step()


@pytest.mark.parametrize("cls", [altgrad.optim.AdamW, altgrad.optim.Lion, altgrad.optim.AdEMAMix])
@pytest.mark.parametrize("betas", [(0.9,), (0.9, 0.99, 0.5, 0.1), [0.9] * 5])
def test_betas_of_another_number(cls, betas):
    params, = twins.make([(5,)], count=1)
    with pytest.raises((TypeError, ValueError, IndexError)):
        cls(params, lr=0.1, betas=betas)
    optimizer = cls(params, lr=0.1)
    twins.give_grads(params)
    optimizer.step()
    optimizer.param_groups[0]["betas"] = betas
    with pytest.raises(ValueError, match=f"betas is .*; it has to be . numbers"):
        optimizer.step()


@pytest.mark.parametrize("key, value", [("eps", None), ("lr", "0.1"), ("betas", (None, 0.9)), ("weight_decay", 1j)])
def test_numbers_of_what_torch_steps(key, value):
    params = [torch.nn.Parameter(torch.ones(4, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
    optimizer = altgrad.optim.AdamW([dict(params=[p]) for p in params], lr=0.1)
    twins.give_grads(params)
    optimizer.step()
    before = copy.deepcopy((params, optimizer.state_dict()["state"]))
    optimizer.param_groups[1][key] = value
    with pytest.raises(TypeError, match=f"{key} is .*, not a number"):
        optimizer.step()
    torch.testing.assert_close(before, (params, optimizer.state_dict()["state"]), rtol=0, atol=0)
