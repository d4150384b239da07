"""torch.distributed.checkpoint on sharded models: saved by two ranks, loaded by three and by one."""

import functools

import ranks
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict,
                                                     set_model_state_dict, set_optimizer_state_dict)
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

import altgrad.optim

CASES = {
    "f32": (altgrad.optim.AdamW, torch.float32, {}),
    "8 bits": (altgrad.optim.AdamW8bit, torch.float32, {}),
    "halves and draws": (altgrad.optim.AdamW, torch.bfloat16, dict(
        storage="master=bf16+i16 m=bf16,stochastic v=f32", seed=7)),
    "torch's": (torch.optim.AdamW, torch.float32, {}),
    "numbers of the step": (altgrad.optim.Prodigy, torch.float32, {}),
}
WITHIN_BITS = "torch's", "numbers of the step"  # sums over ranks have another order of additions
LACKING = dict(cls=altgrad.optim.AdamW, max_grad_norm=1e9, statistics=True)  # of which torch's file says nothing
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


def made(case, cls=None, **more):
    torch.manual_seed(1)
    own, dtype, words = CASES[case]
    model = torch.nn.Sequential(torch.nn.Linear(256, 33), torch.nn.Linear(33, 5)).to(dtype)
    for layer in (*model, model):
        fully_shard(layer)
    return model, (cls or own)(model.parameters(), lr=0.01, **words, **more)


def train(model, optimizer, first):
    for step in range(first, first + 2):
        for place, param in enumerate(model.parameters()):
            torch.manual_seed(100 * step + place)
            grad = torch.randn(param.shape).to(param.dtype)
            param.grad = distribute_tensor(grad, param.device_mesh, param.placements, src_data_rank=None)
        optimizer.step()


def numbers(model, optimizer):
    """Everything that a run goes on from, whole."""
    every = [{"param": param, **optimizer.state[param]} for param in model.parameters()]
    every.append({key: optimizer.param_groups[0][key] for key in getattr(optimizer, "_step_states", ())})
    return [{key: whole(value).flatten().tolist() for key, value in of.items()} for of in every]


def whole(value):
    if not isinstance(value, DTensor):
        return value
    local = value.to_local().detach().float()  # gloo sends not every dtype
    return DTensor.from_local(local, value.device_mesh, value.placements, shape=value.shape,
                              stride=value.stride()).full_tensor()


def save(folder, rank, group):
    after = {}
    for case in CASES:
        model, optimizer = made(case)
        train(model, optimizer, 0)
        dcp.save({"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(
            model, optimizer, options=FLAT)}, checkpoint_id=folder / case)
        train(model, optimizer, 2)
        after[case] = numbers(model, optimizer)
    return after


def load(folder, rank, group):
    after = {}
    for case in CASES:
        model, optimizer = made(case, **LACKING if case == "torch's" else {})
        state = {"model": get_model_state_dict(model),
                 "optim": get_optimizer_state_dict(model, optimizer, options=FLAT)}
        dcp.load(state, checkpoint_id=folder / case)
        set_model_state_dict(model, state["model"])
        set_optimizer_state_dict(model, optimizer, state["optim"], options=FLAT)
        train(model, optimizer, 2)
        after[case] = numbers(model, optimizer)
    return after


def test_a_run_goes_on_with_other_ranks(tmp_path):
    saved, = ranks.run([functools.partial(save, tmp_path)], tmp_path, 2)
    for count in (3, 1):
        (tmp_path / str(count)).mkdir()
        for answer in [saved[0], *ranks.run([functools.partial(load, tmp_path)], tmp_path / str(count), count)[0]]:
            assert not isinstance(answer, str), answer
            for case in CASES:
                if case not in WITHIN_BITS:
                    assert answer[case] == saved[0][case], case
                for a, b in zip(answer[case], saved[0][case]):
                    assert a.keys() == b.keys()
                    torch.testing.assert_close([torch.tensor(a[key]) for key in b], [torch.tensor(b[key]) for key in b])
