"""Files of numbers of rows and columns, and of blocks: flat ones of torch.distributed.checkpoint go on in every layout."""

import functools
import itertools
import os

import pytest
import ranks
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict,
                                                     set_model_state_dict, set_optimizer_state_dict)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

import altgrad

KINDS = {"Adafactor": {}, "NorMuon": {}, "Shampoo": dict(max_precond_dim=16, blocks=True, epsilon=1.0, grafting_type="adam")}
if "ALTGRAD_STANDS_FOR_CUDA" in os.environ:  # products of matrices are for CPUs
    del KINDS["NorMuon"], KINDS["Shampoo"]
HOWS = "plain", "zero2", "fsdp2"
FILES = [(name, flat) for name in KINDS for flat in (True, False) if flat or name == "Adafactor"]


def made(name, how):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(24, 33), torch.nn.LayerNorm(33), torch.nn.Conv1d(3, 4, 5))
    if how == "fsdp2":
        fully_shard(model)
    kind, words = getattr(altgrad.optim, name), dict(lr=0.01, **KINDS[name])
    params = list(model.parameters())
    if name == "NorMuon":
        params = [{"params": [param], "use_muon": param.dim() == 2} for param in params]
    return model, altgrad.distributed.Sharded(kind, params, **words) if how == "zero2" else kind(params, **words)


def train(model, optimizer, first):
    for step in range(first, first + 2):
        torch.manual_seed(step)
        loss = 0.0
        optimizer.zero_grad()
        for param in model.parameters():
            grad = 12.0 * torch.randint(-10, 11, param.shape)
            if isinstance(param, DTensor):
                grad = distribute_tensor(grad, param.device_mesh, param.placements, src_data_rank=None).to_local()
                param = param.to_local()
            loss = loss + (param * grad).sum()
        loss.backward()
        optimizer.step()
    return [(p.full_tensor() if isinstance(p, DTensor) else p).detach().tolist() for p in model.parameters()]


def state_of(model, optimizer, flat):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    return {"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer, options=options)}


def go_on(folder, model, optimizer, flat):
    state = state_of(model, optimizer, flat)
    dcp.load(state, checkpoint_id=folder, no_dist=not dist.is_initialized())
    set_model_state_dict(model, state["model"])
    set_optimizer_state_dict(model, optimizer, state["optim"], options=StateDictOptions(flatten_optimizer_state_dict=flat))
    return train(model, optimizer, 2)


def save(folder, rank=0, group=None):
    after = {}
    for (name, flat), how in itertools.product(FILES, HOWS):
        model, optimizer = made(name, how)
        train(model, optimizer, 0)
        dcp.save(state_of(model, optimizer, flat), checkpoint_id=folder / f"{name} {how} {flat}")
        after[name, how] = train(model, optimizer, 2)
    return after


def load(folder, rank, group):
    return {(name, saved, how, flat): go_on(folder / f"{name} {saved} {flat}", *made(name, how), flat)
            for (name, flat), saved, how in itertools.product(FILES, HOWS, HOWS)}


@pytest.mark.filterwarnings("ignore")
def test_a_run_goes_on_in_another_layout(tmp_path):
    saved, = ranks.run([functools.partial(save, tmp_path)], tmp_path, 2)
    assert not isinstance(saved[0], str), saved[0]
    for count in (3, 1):
        (tmp_path / str(count)).mkdir()
        for answer in ranks.run([functools.partial(load, tmp_path)], tmp_path / str(count), count)[0]:
            assert not isinstance(answer, str), answer
            for (name, *how), params in answer.items():
                for mine, theirs in zip(params, saved[0][name, "plain"]):
                    torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), rtol=1e-5, atol=1e-6, msg=f"{name} {how}")


def of_class(kind):
    """Without a tensor of three dimensions, which torch's class takes for several matrices."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(24, 33), torch.nn.LayerNorm(33))
    return model, kind(model.parameters(), lr=0.01)


@pytest.mark.parametrize("flat", (True, False))
@pytest.mark.parametrize("here, there", [*itertools.permutations((torch.optim.Adafactor, altgrad.optim.Adafactor))])
def test_files_go_both_ways_with_torch(here, there, flat, tmp_path):
    """A vector's state is `variance` in a file, and two numbers in memory."""
    model, optimizer = of_class(there)
    train(model, optimizer, 0)
    dcp.save(state_of(model, optimizer, flat), checkpoint_id=tmp_path, no_dist=True)
    expected = train(model, optimizer, 2)
    for mine, theirs in zip(go_on(tmp_path, *of_class(here), flat), expected):
        torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), rtol=1e-5, atol=1e-6)


def alone_of_two(folder, rank, group):
    """One parameter, which one of the ranks keeps: the other has nothing, and does not step by itself to have some."""
    after = []
    for flat in (True, False):
        model, other = torch.nn.Linear(5, 4, bias=False), torch.nn.Linear(5, 4, bias=False)
        optimizers = [altgrad.distributed.Sharded(altgrad.optim.Adafactor, of.parameters(), lr=0.01) for of in (model, other)]
        train(model, optimizers[0], 0)
        dcp.save(state_of(model, optimizers[0], flat), checkpoint_id=folder / f"alone {flat}")
        after.append((go_on(folder / f"alone {flat}", other, optimizers[1], flat), train(model, optimizers[0], 2)))
    return after


def test_a_rank_that_keeps_nothing(tmp_path):
    for answer in ranks.run([functools.partial(alone_of_two, tmp_path)], tmp_path, 2)[0]:
        assert not isinstance(answer, str), answer
        assert all(found == expected for found, expected in answer)
