"""States in files of altgrad.distributed, FSDP2 and plain optimizers: saved by two ranks, and a run goes on with three and
with one, with its own kind of optimizer and with the others."""

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

import altgrad
from altgrad.distributed._flat_shard import boxes

CASES = {
    "f32": (altgrad.optim.AdamW, torch.float32, {}),
    "8 bits": (altgrad.optim.AdamW8bit, torch.float32, {}),
    "4 bits": (altgrad.optim.AdamW4bit, torch.float32, {}),
    "as many elements": (altgrad.optim.AdamW8bit, torch.float32, {}),
    "halves and draws": (altgrad.optim.AdamW, torch.bfloat16, dict(
        storage="master=bf16+i16 m=bf16,stochastic v=f32", seed=7)),
}
if "ALTGRAD_STANDS_FOR_CUDA" not in os.environ:  # products of matrices are for CPUs
    CASES["Muon"] = altgrad.optim.Muon, torch.float32, {}
OF_GROUPS = {"as many elements": dict(min_8bit_size=33 * 256)}  # as the whole has, and no part
HOWS = "zero2", "fsdp2", "plain"
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def made(case, how, model=None):
    """A model and its optimizer: "zero2", "fsdp2" or "plain"."""
    torch.manual_seed(1)
    kind, dtype, words = CASES[case]
    model = model or torch.nn.Sequential(torch.nn.Linear(256, 33), torch.nn.Linear(33, 5)).to(dtype)
    if how == "fsdp2":
        fully_shard(model)
    if case == "Muon":
        params = [{"params": [param], "use_muon": param.dim() > 1} for param in model.parameters()]
        words = dict(reproducible=True) if how == "zero2" else {}  # then ranks have states of nothing, too
        return model, (kind if how == "plain" else altgrad.distributed.DistMuon)(params, lr=0.01, **words)
    groups = [{"params": [param], "lr": 0.01 / (place + 1), **OF_GROUPS.get(case, {})} for place, param in enumerate(model.parameters())]
    if how == "zero2":
        return model, altgrad.distributed.Sharded(kind, groups, bucket_bytes=10000, **words)
    return model, kind(groups, **words)


def train(model, optimizer, first):
    """Two steps with gradients that are the same on all ranks, and so is their average."""
    for step in range(first, first + 2):
        torch.manual_seed(step)
        grads = [12.0 * torch.randint(-10, 11, param.shape) for param in model.parameters()]
        optimizer.zero_grad()
        weighed(model, grads).backward()
        optimizer.step()
        for group in optimizer.param_groups:  # as a scheduler does after each step
            group["lr"] *= 0.75


def weighed(model, grads):
    """A loss that has these gradients, of plain parameters and of DTensors."""
    total = 0.0
    for param, grad in zip(model.parameters(), grads):
        if hasattr(param, "device_mesh"):
            from torch.distributed.tensor import distribute_tensor
            grad = distribute_tensor(grad, param.device_mesh, param.placements, src_data_rank=None).to_local()
            param = param.to_local()
        total = total + (param * grad.to(param.dtype)).float().sum()
    return total


def numbers(model):
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach().float().flatten().tolist()
            for p in model.parameters()]


def state_of(model, optimizer):
    return {"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer, options=FLAT)}


def restore(folder, model, optimizer):
    before = numbers(model)
    state = state_of(model, optimizer)  # makes a step where there are no states
    assert numbers(model) == before
    dcp.load(state, checkpoint_id=folder)
    set_model_state_dict(model, state["model"])
    set_optimizer_state_dict(model, optimizer, state["optim"], options=FLAT)


def save(folder, rank, group):
    after = {}
    for case in CASES:
        for how in HOWS:
            model, optimizer = made(case, how)
            train(model, optimizer, 0)
            dcp.save(state_of(model, optimizer), checkpoint_id=folder / f"{case}, {how}")
            if how == "zero2":
                dcp.async_save(state_of(model, optimizer), checkpoint_id=folder / f"{case}, later").result()
                torch.save((model.state_dict(), optimizer.state_dict()), folder / f"{case} {rank}.pt")
            train(model, optimizer, 2)
            after[case, how] = numbers(model)
    return after


NARROW = "AdamW8bit", "Adam8bit", "AdamWFp8", "AdamW4bit", "Lion8bit", "AdamW"
LARGE = {"AdamW": dict(storage="m=bnb8:2048,min_size:5 v=bnb8u:512,keep_positive,min_size:5")}


def awkward(name):
    """Models whose rows end within blocks, and vectors."""
    layers = torch.nn.Linear(101, 64), torch.nn.LayerNorm(5000), torch.nn.Conv2d(3, 40, 7)
    return torch.nn.Sequential(*(layers if name == "AdamW8bit" else layers[:1]))


def cut(folder, rank, group):
    """{(class, by whom it was saved, by whom loaded): parameters} of states whose blocks go through the cuts of FSDP2."""
    after = {}
    for name in NARROW:
        CASES[name] = getattr(altgrad.optim, name), torch.float32, LARGE.get(name, {})
        for how in HOWS if not list(folder.glob(f"{name}, *")) else ():
            model, optimizer = made(name, how, awkward(name))
            train(model, optimizer, 0)
            dcp.save(state_of(model, optimizer), checkpoint_id=folder / f"{name}, {how}")
            train(model, optimizer, 2)
            after[name, how, "on"] = numbers(model)
    dist.barrier()
    for name, saved, how in itertools.product(NARROW, HOWS, HOWS):
        model, optimizer = made(name, how, awkward(name))
        restore(folder / f"{name}, {saved}", model, optimizer)
        if rank == 0:
            codes = [held["exp_avg"].dtype != torch.float32 for held in optimizer.state.values()] if how == "plain" else [True]
            assert codes[0] and not (how == "fsdp2" and any(codes[1:]))
        train(model, optimizer, 2)
        after[name, saved, how] = numbers(model)
    return after


def load(folder, rank, group):
    """{(case, how it was loaded, by whom it was saved): parameters after two more steps}."""
    after = {}
    for case in CASES:
        for how in HOWS:
            for saved in (*HOWS, "later"):
                model, optimizer = made(case, how)
                restore(folder / f"{case}, {saved}", model, optimizer)
                train(model, optimizer, 2)
                after[case, how, saved] = numbers(model)
        model, optimizer = made(case, "zero2")
        files = [torch.load(folder / f"{case} {of}.pt", weights_only=True) for of in range(2)]
        model.load_state_dict(files[0][0])
        with pytest.raises(ValueError, match="is of .rank, ranks. .0, 2., and this is .*give the files of all ranks"):
            optimizer.load_state_dict(files[0][1])
        with pytest.raises(ValueError, match="it takes that of each rank, once"):
            altgrad.distributed.merge_state_dicts([files[0][1]])
        optimizer.load_state_dict(altgrad.distributed.merge_state_dicts([file[1] for file in files]))
        train(model, optimizer, 2)
        after[case, "joined"] = numbers(model)
    return after


def test_a_run_goes_on_with_other_ranks(tmp_path):
    saved, = ranks.run([functools.partial(save, tmp_path)], tmp_path, 2)
    assert not isinstance(saved[0], str), saved[0]
    expected = {case: saved[0][case, "plain"] for case in CASES}
    for count in (3, 1):
        (tmp_path / str(count)).mkdir()
        for answer in [*saved, *ranks.run([functools.partial(load, tmp_path)], tmp_path / str(count), count)[0]]:
            assert not isinstance(answer, str), answer
            for said, params in answer.items():
                assert params == expected[said[0]], (said, count)
    for case in CASES:
        model, optimizer = made(case, "plain")
        files = [torch.load(tmp_path / f"{case} {rank}.pt", weights_only=True) for rank in range(2)]
        model.load_state_dict(files[1][0])
        with pytest.raises(ValueError, match="of one rank's part, .rank, ranks. .0, 2.: give the files of all ranks to"):
            optimizer.load_state_dict(files[0][1])
        optimizer.load_state_dict(altgrad.distributed.merge_state_dicts([file[1] for file in files]))
        train(model, optimizer, 2)
        assert numbers(model) == expected[case], case


@pytest.mark.filterwarnings("ignore")
def test_blocks_that_ranks_would_cut_go_across(tmp_path):
    """FSDP2 has float32 there, so a run goes on with the same bits among equals, and with close numbers otherwise."""
    (first, *_), = ranks.run([functools.partial(cut, tmp_path)], tmp_path, 2)
    for count in (3, 1):
        (tmp_path / str(count)).mkdir()
        for answer in (first, *ranks.run([functools.partial(cut, tmp_path)], tmp_path / str(count), count)[0]):
            assert not isinstance(answer, str), answer
            for (name, saved, how), params in answer.items():
                expected = first[name, saved, "on"]
                if (saved == "fsdp2") == (how == "fsdp2"):
                    assert params == expected, (name, saved, how, count)
                off = torch.cat([(torch.tensor(a) - torch.tensor(b)).abs() for a, b in zip(params, expected)])
                assert off.mean() < (1e-3 if "4bit" in name else 3e-4), (name, saved, how, count, off.mean())  # Lion moves by signs


def test_boxes_are_the_elements_of_a_run():
    shape = (3, 4, 5)
    whole = torch.arange(60).view(shape)
    for begin in range(0, 61, 3):
        for end in range(begin, 61, 7):
            found = [whole[tuple(slice(at, at + size) for at, size in zip(*box))] for box in boxes(shape, begin, end)]
            assert [int(n) for of in found for n in of.flatten()] == list(range(begin, end)) and len(found) <= 5
