"""What one rank alone saves of altgrad.distributed: whole states after consolidate_state_dict(), and else a warning."""

import copy
import warnings

import pytest
import ranks
import torch
import twins
from torch.nn.parallel import DistributedDataParallel

import altgrad
from altgrad.distributed import DistAdamW, DistMuon, Sharded

MAKES = {
    "f32": lambda params: DistAdamW(params, lr=0.01),
    "8 bits": lambda params: Sharded(altgrad.optim.AdamW8bit, params, lr=0.01, bucket_bytes=40000),
    "4 bits": lambda params: Sharded(altgrad.optim.AdamW4bit, params, lr=0.01, reproducible=True),
    "Muon": lambda params: DistMuon(params, lr=0.01),
}


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 128, bias=False), torch.nn.Linear(128, 32, bias=False))


def train(model, optimizer, step):
    torch.manual_seed(step)  # the same on all ranks
    optimizer.zero_grad()
    model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()


def consolidated(rank, group):
    """Rank 1 saves; all ranks go on from its file, and have the bits of the run that was not interrupted."""
    for name, make in MAKES.items():
        model = model_of()
        optimizer = make([*model.named_parameters()])
        train(model, optimizer, 0)
        optimizer.consolidate_state_dict(1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            file = [twins.through_a_file(optimizer.state_dict()) if rank == 1 else None]
        torch.distributed.broadcast_object_list(file, 1)
        assert "ranks" not in file[0] and len(file[0]["state"]) == 2, name
        assert file[0]["param_groups"][0]["param_names"] == ["0.weight", "1.weight"]
        other, weights = model_of(), copy.deepcopy(model.state_dict())
        train(model, optimizer, 1)
        assert optimizer.state_dict()["ranks"] == (rank, 2)
        other.load_state_dict(weights)
        resumed = make(other.parameters())
        resumed.load_state_dict(file[0])
        train(other, resumed, 1)
        assert all(map(torch.equal, model.parameters(), other.parameters())), name


def warned(rank, group):
    """Once, on rank 0, by what pickles; not by copies."""
    found = []
    for name, make in MAKES.items():
        model = model_of()
        optimizer = make(model.parameters())
        train(model, optimizer, 0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            state = copy.deepcopy(optimizer.state_dict())
            assert not caught
            file = twins.through_a_file(state)
        assert file["ranks"] == (rank, 2)
        found += [str(warning.message) for warning in caught]
    assert len(found) == (rank == 0), found
    assert not found or "the states of rank 0's part, of 2 ranks: if the other ranks do not save theirs, call" in found[0]


def refused(rank, group):
    """A trainer gives rank 0's file to all of them: no rank loads it, and each knows."""
    model = model_of()
    optimizer = DistAdamW(model.parameters(), lr=0.01)
    train(model, optimizer, 0)
    file = [twins.through_a_file(optimizer.state_dict())]
    torch.distributed.broadcast_object_list(file, 0)
    before = optimizer.local_optimizer.state_dict()
    with pytest.raises(ValueError, match="is of .rank, ranks. .0, 2., and this is .1, 2." if rank
                       else "the file of rank 1 does not fit there, as that rank says"):
        optimizer.load_state_dict(file[0])
    train(model, optimizer, 1)
    assert optimizer.local_optimizer.state_dict().keys() == before.keys()


def in_ddp(rank, group):
    """A model that averages already is warned of once; one beside it is not."""
    for wraps in (True, False):
        model, beside = model_of(), model_of()
        wrapped = DistributedDataParallel(model if wraps else beside)
        optimizer = DistAdamW(model.parameters(), lr=0.01)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for step in range(2):
                train(wrapped if wraps else model, optimizer, step)
        said = [str(warning.message) for warning in caught if "DistributedDataParallel" in str(warning.message)]
        assert len(said) == wraps and all("so that they travel twice" in words for words in said)


def test_whole_or_warned_of(tmp_path):
    for answer in ranks.run([consolidated, warned, refused, in_ddp], tmp_path):
        assert answer == (None, None), "\n".join(map(str, answer))
