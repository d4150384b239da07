"""torch.distributed.checkpoint: states, seeds, draws and histories survive, with a process group and without."""

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict,
                                                     set_model_state_dict, set_optimizer_state_dict)

import altgrad.optim
from altgrad.optim import AdamW, AdamW8bit, AdamWFp8, GridOptim, Lion8bit

CASES = {
    "8 bits": (AdamW8bit, torch.float32, {}), "fp8": (AdamWFp8, torch.bfloat16, {}),
    "Lion": (Lion8bit, torch.float32, {}),
    "scales of e8m0": (AdamW, torch.float32, dict(storage="m=ocp.e4m3fn:32:ocp.e8m0 v=ocp.e5m2:32:ocp.e8m0")),
    "halves": (AdamW, torch.bfloat16, dict(storage="states=f32 master=bf16+i16")),
    "draws": (AdamW, torch.bfloat16, dict(storage="param=bf16,stochastic m=bf16,stochastic", seed=5)),
    "delayed": (AdamW, torch.bfloat16, dict(storage="states=f32 copy=ocp.e4m3fn,delayed")),
    "copy": (AdamW, torch.bfloat16, dict(storage="states=f32 copy=mxfp8")),
    "percentile": (AdamW, torch.float32, dict(max_grad_norm="percentile:50")),
    "rungs": (GridOptim, torch.float32, dict(seed=3, weight_decay=3.0)),
}


@pytest.fixture(params=["alone", "in a group"])
def grouped(request, tmp_path):
    """What dcp's functions are told."""
    if request.param == "alone":
        yield dict(no_dist=True)
        return
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    try:
        yield {}
    finally:
        dist.destroy_process_group()


def made(case, **more):
    cls, dtype, options = CASES[case]
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(96, 96), torch.nn.Linear(96, 64)).to(dtype)
    return model, cls(model.parameters(), **{**options, **more})


def train(model, optimizer, first):
    for step in range(first, first + 3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        model(torch.randn(8, 96).to(next(model.parameters()).dtype)).float().square().mean().backward()
        optimizer.step()


def same(a, b):
    if not isinstance(a, torch.Tensor):
        return a == b
    return a.dtype == b.dtype and a.shape == b.shape and torch.equal(
        a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8))


def check_same(one, two):
    assert all(map(same, one[0].parameters(), two[0].parameters()))
    for a, b in zip(*[of.state_dict()["param_groups"] for _, of in (one, two)]):
        assert a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    for p, q in zip(one[0].parameters(), two[0].parameters()):
        a, b = one[1].state[p], two[1].state[q]
        assert a.keys() == b.keys() and all(same(a[key], b[key]) for key in a), a.keys()


def through_dcp(one, two, path, told, options):
    """The way that torch's documentation shows; the model first."""
    state = {"model": get_model_state_dict(one[0]), "optim": get_optimizer_state_dict(*one, options=options)}
    dcp.save(state, checkpoint_id=path, **told)
    state = {"model": get_model_state_dict(two[0]), "optim": get_optimizer_state_dict(*two, options=options)}
    dcp.load(state, checkpoint_id=path, **told)
    return state


def through_torch(one, two, path, told, options):
    torch.save({"model": get_model_state_dict(one[0]), "optim": get_optimizer_state_dict(*one, options=options)},
               path / "file")
    return torch.load(path / "file", weights_only=True)


@pytest.mark.parametrize("how", [through_dcp, through_torch])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:.*(is deprecated|single process|no_dist|distributed process group)")
def test_a_run_goes_on_with_the_same_bits(case, flat, how, grouped, tmp_path):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    one, two = made(case), made(case, **({"seed": 99} if "seed" in CASES[case][2] else {}))
    train(*one, 0)
    state = how(one, two, tmp_path, grouped, options)
    set_model_state_dict(two[0], state["model"])
    set_optimizer_state_dict(*two, state["optim"], options=options)
    check_same(one, two)
    train(*one, 3), train(*two, 3)
    check_same(one, two)


def test_another_storage_is_refused_in_words():
    one, two = made("8 bits"), made("fp8")
    train(*one, 0)
    state = get_optimizer_state_dict(*one)
    with pytest.raises(ValueError, match="the file's states are stored as 'states=bnb8u:256,keep_positive exp_avg=bnb8:256'"):
        set_optimizer_state_dict(*two, state)


def test_making_states_moves_no_rung():
    """torch.distributed.checkpoint steps once with gradients of 0, and with lr 0 where there is an lr."""
    model, optimizer = made("rungs")
    train(model, optimizer, 0)
    other, fresh = made("rungs")
    other.load_state_dict(model.state_dict())
    get_optimizer_state_dict(other, fresh)
    assert all(map(torch.equal, model.parameters(), other.parameters()))
