"""What steps keep in the param_groups, draws and a history of norms, edited by the user between steps."""

import pytest
import torch

import altgrad

KEYS = ["draws", "norm_history"]


def made(seed=1):
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(300).bfloat16())
    optimizer = altgrad.optim.AdamW([weight], storage="param=bf16,stochastic", seed=seed,
                                    max_grad_norm="percentile:30")
    step(weight, optimizer)
    return weight, optimizer, optimizer.param_groups[0]


def step(weight, optimizer, seed=1):
    torch.manual_seed(seed)
    weight.grad = torch.randn_like(weight)
    optimizer.step()


@pytest.mark.parametrize("key", KEYS)
def test_memory_that_was_freed_is_refused(key):
    weight, optimizer, group = made()
    before = weight.detach().clone()
    group[key].untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="resize the storage before the step"):
        step(weight, optimizer)
    assert torch.equal(weight, before)


@pytest.mark.parametrize("key", KEYS)
def test_memory_that_moved_is_found(key):
    weight, optimizer, group = made()
    group[key].share_memory_()
    step(weight, optimizer)
    assert group[key].view(-1)[0] == 2 and group[key].is_shared()


def test_what_was_put_in_its_place_counts_on():
    weight, optimizer, group = made()
    group["draws"], group["norm_history"] = torch.tensor(7), torch.full((101,), float("nan"))
    step(weight, optimizer)
    assert group["draws"] == 8 and group["norm_history"][0] == 1
    group["draws"] = 20
    del group["norm_history"]
    step(weight, optimizer)
    assert group["draws"] == 21 and group["norm_history"][0] == 1


def test_another_seed_counts_at_once():
    weights = []
    for first in (1, 2):
        weight, optimizer, group = made(first)
        weight.data.fill_(1.0)
        group["seed"] = 2
        step(weight, optimizer)
        weights.append(weight)
    assert torch.equal(*weights)


@pytest.mark.parametrize("key, value", [
    ("draws", None), ("draws", -4), ("draws", torch.tensor(5.0)), ("draws", torch.tensor([5, 6])),
    ("seed", "x"), ("seed", 2**64), ("seed", None), ("seed", 1.5)])
def test_what_is_no_count_and_no_seed_is_named(key, value):
    weight, optimizer, group = made()
    before = weight.detach().clone()
    group[key] = value
    with pytest.raises(ValueError, match=f"{key} of a param_group is"):
        step(weight, optimizer)
    assert torch.equal(weight, before)
