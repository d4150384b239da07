"""full_state_dict=True of torch.distributed.checkpoint: what process groups do not send travels as bytes."""

import functools

import pytest
import ranks
import torch
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict,
                                                     set_model_state_dict, set_optimizer_state_dict)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

import altgrad

CASES = {
    "two halves": ("AdamW", torch.bfloat16, dict(storage="master=bf16+i16")),
    "in int8": ("AdamW", torch.bfloat16, dict(storage="master=bf16+i8 states=f32")),
    "FP8": ("AdamWFp8", torch.float32, {}),
    "FP8 with scales in FP8": ("AdamW", torch.float32, dict(storage="states=ocp.e5m2:32:ocp.e8m0,keep_positive m=ocp.e4m3fn:32:ocp.e8m0")),
    "8 bits": ("AdamW8bit", torch.float32, {}),
    "copy": ("AdamW", torch.float32, dict(storage="copy=ocp.e4m3fn")),
    "FlashOptim's": ("AdamW", torch.float32, dict(storage="m=int8:32:f16,softsign v=uint8:32:f16,sqrt")),
}


def made(case, sharded):
    torch.manual_seed(1)
    name, dtype, words = CASES[case]
    model = torch.nn.Sequential(torch.nn.Linear(256, 33), torch.nn.Linear(33, 5), torch.nn.Linear(101, 64)).to(dtype)
    if sharded:
        fully_shard(model)
    return model, getattr(altgrad.optim, name)(model.parameters(), lr=0.01, **words)


def train(model, optimizer, first):
    for step in range(first, first + 2):
        for place, param in enumerate(model.parameters()):
            torch.manual_seed(100 * step + place)
            param.grad = torch.randn(param.shape).to(param.dtype)
            if hasattr(param, "device_mesh"):
                param.grad = distribute_tensor(param.grad, param.device_mesh, param.placements, src_data_rank=None)
        optimizer.step()


def numbers(model):
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach().float().tolist() for p in model.parameters()]


def options(flat, spread=False):
    return StateDictOptions(full_state_dict=True, broadcast_from_rank0=spread, flatten_optimizer_state_dict=flat)


def save(folder, sharded, rank=0, group=None):
    after = {}
    for case in CASES:
        model, optimizer = made(case, sharded)
        train(model, optimizer, 0)
        for flat in (False, True):
            state = get_model_state_dict(model, options=options(flat)), get_optimizer_state_dict(model, optimizer, options=options(flat))
            if rank == 0:
                torch.save(state, folder / f"{case} {flat} {sharded}")
        train(model, optimizer, 2)
        after[case] = numbers(model)
    return after


def load(folder, saved, sharded, rank=0, group=None):
    after = {}
    for case in CASES:
        for how in ("each", "spread") if sharded else ("each", "flat"):  # flat and whole is what torch cannot load
            model, optimizer = made(case, sharded)
            state = ({}, {}) if rank and how == "spread" else torch.load(folder / f"{case} {how == 'flat'} {saved}", weights_only=True)
            said = StateDictOptions(flatten_optimizer_state_dict=True) if how == "flat" else options(False, how == "spread")
            set_model_state_dict(model, state[0], options=said)
            set_optimizer_state_dict(model, optimizer, state[1], options=said)
            train(model, optimizer, 2)
            after[case, how] = numbers(model)
    return after


@pytest.mark.filterwarnings("ignore")
def test_a_whole_file_goes_on_everywhere(tmp_path):
    (first, *_), = ranks.run([functools.partial(save, tmp_path, True)], tmp_path, 2)
    assert not isinstance(first, str), first
    own = save(tmp_path, False)
    (tmp_path / "3").mkdir()
    of_ranks, of_one = ranks.run([functools.partial(load, tmp_path, True, True), functools.partial(load, tmp_path, False, True)],
                                 tmp_path / "3", 3)
    kinds = (of_ranks, first, True), ([load(tmp_path, False, False)], own, True), (of_one, own, False), (
        [load(tmp_path, True, False)], first, False)
    for answers, expected, equal in kinds:  # ranks have float32 where their parts end within blocks
        for answer in answers:
            assert not isinstance(answer, str), answer
            for (case, how), params in answer.items():
                off = torch.cat([(torch.tensor(a) - torch.tensor(b)).flatten() for a, b in zip(params, expected[case])])
                assert not off.any() if equal else off.abs().mean() < 3e-4, (case, how, equal, off.abs().mean())
