"""Whoever changes the parameters of Sharded after it was made is followed, or told so on every rank in the next step."""

import copy

import pytest
import ranks
import torch
from torch.distributed.fsdp import fully_shard

import altgrad

KINDS = {"AdamW": altgrad.distributed.DistAdamW, "Muon": altgrad.distributed.DistMuon}
REPLACED = "the memory of a parameter of shape .* was replaced: make the optimizer once the model is where it stays"


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 48, bias=False), torch.nn.Linear(48, 8, bias=False))


def train(model, optimizer, rank, steps=range(3)):
    for step in steps:
        torch.manual_seed(10 * step + rank)
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()


def numbers(model):
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach().clone() for p in model.parameters()]


def replaced_before(rank, group):
    """Others are put into the groups before the first step: DTensors, as accelerate does, and plain ones, one by one."""
    for name, make in KINDS.items():
        found = []
        for how in ("at once", "dtensors", "plain"):
            model = model_of()
            if how == "at once":
                optimizer = make(model.parameters(), lr=0.01)
            else:
                optimizer = make(copy.deepcopy(model).parameters(), lr=0.01)
                optimizer.load_state_dict(optimizer.state_dict())  # as accelerate's prepare() does
                if how == "dtensors":
                    fully_shard(model)
                for place, param in enumerate(model.parameters()):
                    optimizer.param_groups[0]["params"][place] = param
                assert optimizer.state_dict()["state"] == {}
            train(model, optimizer, rank)
            assert set(optimizer.state) <= set(model.parameters()) and optimizer.grad_norm is None
            found.append(numbers(model))
        for other in found[1:]:
            for a, b in zip(found[0], other):
                torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6, msg=name)
        assert not torch.equal(found[0][0], numbers(model_of())[0])


def replaced_later(rank, group):
    """The states are of the earlier ones: refused on all ranks, in a step and in a file."""
    model = model_of()
    optimizer = altgrad.distributed.DistAdamW(model.parameters(), lr=0.01)
    train(model, optimizer, rank, [0])
    optimizer.param_groups[0]["params"][0] = torch.nn.Parameter(torch.zeros(48, 64))
    before = numbers(model)
    for call in (optimizer.step, optimizer.state_dict):
        with pytest.raises(RuntimeError, match="param_groups have other parameters than those that it was made for"):
            call()
    assert all(map(torch.equal, before, numbers(model)))


def moved_before(rank, group):
    """A model that is copied to other memory of its device before the first step, as Accelerate does to cpu:0."""
    found = []
    for moves in (False, True):
        model = model_of()
        optimizer = altgrad.distributed.DistAdamW(model.parameters(), lr=0.01)
        if moves:
            for param in model.parameters():
                param.data = param.data.clone()
        train(model, optimizer, rank)
        found.append(numbers(model))
    assert all(map(torch.equal, *found))


def on_one_rank(rank, group):
    """The memory of rank 1's parameter is replaced; rank 0 is told so, and does not wait for it."""
    model = model_of()
    optimizer = altgrad.distributed.DistAdamW(model.parameters(), lr=0.01)
    train(model, optimizer, rank, [0])
    kept = model[0].weight.data
    if rank:
        model[0].weight.data = kept.clone()
    with pytest.raises(RuntimeError, match=REPLACED if rank else "the parameters of rank 1 were replaced since the last step"):
        train(model, optimizer, rank, [1])
    model[0].weight.data = kept
    train(model, optimizer, rank, [1])


def laid_otherwise(rank, group):
    """At the same address in another shape."""
    for make in KINDS.values():
        model = model_of()
        optimizer = make(model.parameters(), lr=0.01)
        train(model, optimizer, rank, [0])
        model[0].weight.data = model[0].weight.data.view(64, 48)
        with pytest.raises(RuntimeError, match=REPLACED):
            optimizer.step()


def regrouped(rank, group):
    """The same parameters in other groups, with options of their own: as with one process, and its states stay."""
    found = []
    for make in (altgrad.distributed.DistAdamW, altgrad.optim.AdamW):
        model = model_of()
        groups = [{"params": [model[0].weight]}, {"params": [model[1].weight]}]
        optimizer = make(groups, lr=0.01)
        for step in range(4):
            torch.manual_seed(step)  # the same on both ranks, and so is the average
            optimizer.zero_grad()
            model(torch.randn(8, 64)).square().mean().backward()
            if step == 2:
                optimizer.param_groups[1]["params"].append(optimizer.param_groups[0]["params"].pop())
                optimizer.param_groups[1]["lr"] = 0.5
                optimizer.param_groups.pop(0)
            optimizer.step()
        found.append(numbers(model))
    assert all(map(torch.equal, *found))


def test_followed_or_refused(tmp_path):
    for answer in ranks.run([replaced_before, replaced_later, moved_before, on_one_rank, laid_otherwise, regrouped], tmp_path):
        assert answer == (None, None), "\n".join(map(str, answer))
