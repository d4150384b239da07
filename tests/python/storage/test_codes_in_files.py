"""States that are codes lie one level deeper in a file: torch's classes refuse them, and ours read them everywhere."""

import copy
import io
import pickle

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
import torch.distributed.checkpoint.state_dict as dcp
from torch.distributed.optim import ZeroRedundancyOptimizer

import altgrad

NARROW = [(altgrad.optim.AdamW8bit, torch.optim.AdamW, {}), (altgrad.optim.AdamW4bit, torch.optim.AdamW, {}),
          (altgrad.optim.AdamWFp8, torch.optim.AdamW, {}),
          (altgrad.optim.SGD, torch.optim.SGD, dict(momentum=0.9, storage="buf=bnb8:256")),
          (altgrad.optim.Adagrad, torch.optim.Adagrad, dict(storage="sum=bf16:32,keep_positive")),
          (altgrad.optim.RMSprop, torch.optim.RMSprop, dict(storage="v=bnb8u:256,keep_positive"))]


def stepped(cls, steps=2, **arguments):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 80), torch.nn.Linear(80, 3))
    optimizer = cls(model.parameters(), lr=1e-3, **arguments)
    for _ in range(steps):
        step(model, optimizer)
    return model, optimizer


def step(model, optimizer):
    for place, param in enumerate(model.parameters()):
        param.grad = torch.linspace(-1, 1 + place, param.numel()).view_as(param)
    optimizer.step()


def saved(optimizer):
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    return torch.load(file)


def numbers(model):
    return [param.detach().clone() for param in model.parameters()]


@pytest.mark.parametrize("cls, theirs, arguments", NARROW, ids=lambda value: getattr(value, "__name__", None))
@pytest.mark.parametrize("foreach", [False, True])
def test_torch_refuses_codes(cls, theirs, arguments, foreach):
    model, optimizer = stepped(cls, **arguments)
    before = numbers(model)
    there = {key: value for key, value in arguments.items() if key != "storage"}
    other = theirs(model.parameters(), lr=1e-3, foreach=foreach, **there)
    other.load_state_dict(saved(optimizer))
    with pytest.raises((AttributeError, TypeError, RuntimeError), match="dict"):
        other.step()
    for old, new in zip(before, numbers(model)):
        torch.testing.assert_close(new, old, rtol=2e-5, atol=0)  # its decay comes first
    other.load_state_dict(altgrad.transcode(saved(optimizer), to="torch", params=list(model.parameters()), report=None))
    other.step()


@pytest.mark.parametrize("cls, arguments", [(cls, arguments) for cls, _, arguments in NARROW])
@pytest.mark.parametrize("way", ["file", "older file", "deepcopy", "pickle", "dcp", "flat dcp"])
def test_ours_goes_on(cls, arguments, way):
    model, optimizer = stepped(cls, **arguments)
    other = copy.deepcopy(model)
    second = cls(other.parameters(), lr=1e-3, **arguments)
    if way == "file":
        second.load_state_dict(saved(optimizer))
    elif way == "older file":
        file = saved(optimizer)
        for held in file["state"].values():
            held.update({key: value["codes"] for key, value in held.items() if isinstance(value, dict)})
        second.load_state_dict(file)
    elif way in ("deepcopy", "pickle"):
        both = model, optimizer
        other, second = copy.deepcopy(both) if way == "deepcopy" else pickle.loads(pickle.dumps(both))
    else:
        options = dcp.StateDictOptions(flatten_optimizer_state_dict=way == "flat dcp")
        file = dcp.get_optimizer_state_dict(model, optimizer, options=options)
        dcp.set_optimizer_state_dict(other, second, copy.deepcopy(file), options=options)
    for pair in (model, optimizer), (other, second):
        step(*pair)
    assert all(map(torch.equal, numbers(model), numbers(other)))
    again = [held for one in (optimizer, second) for held in one.state.values()]
    assert all(isinstance(value, torch.Tensor) for held in again for value in held.values())


def test_which_states_are_codes():
    model, optimizer = stepped(altgrad.optim.AdamW, storage="m=bf16 v=ocp.e5m2:128,keep_positive")
    entries, own = optimizer.state_dict()["state"], [optimizer.state[param] for param in model.parameters()]
    assert entries[0]["exp_avg"] is own[0]["exp_avg"] and entries[0]["exp_avg_sq"]["codes"] is own[0]["exp_avg_sq"]
    assert entries[1] is own[1]  # a small tensor has float32 states


@pytest.mark.parametrize("dtype", [torch.complex64, torch.float64])
def test_what_torch_steps_is_no_code(dtype):
    param = torch.nn.Parameter(torch.ones(8, dtype=dtype))
    optimizer, theirs = altgrad.optim.Adagrad([param]), torch.optim.Adagrad([param])
    param.grad = torch.ones_like(param)
    optimizer.step()
    assert optimizer.state_dict()["state"][0] is optimizer.state[param]
    theirs.load_state_dict(optimizer.state_dict())
    theirs.step()


def test_an_entry_of_a_file_in_memory():
    """torch's ZeroRedundancyOptimizer puts the entries of a file into `state` by itself."""
    model, optimizer = stepped(altgrad.optim.AdamW8bit)
    other, second = stepped(altgrad.optim.AdamW8bit, steps=1)
    other.load_state_dict(model.state_dict())
    for param, entry in zip(other.parameters(), saved(optimizer)["state"].values()):
        second.state[param] = entry
    for pair in (model, optimizer), (other, second):
        step(*pair)
    assert all(map(torch.equal, numbers(model), numbers(other)))


@pytest.fixture
def alone(tmp_path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_zero_saves_and_loads(alone):
    model, optimizer = stepped(ZeroRedundancyOptimizer, optimizer_class=altgrad.optim.AdamW8bit)
    optimizer.consolidate_state_dict(0)
    file = saved(optimizer)
    assert file["state"][0]["exp_avg"].keys() == {"codes"}
    other, second = stepped(ZeroRedundancyOptimizer, steps=0, optimizer_class=altgrad.optim.AdamW8bit)
    other.load_state_dict(model.state_dict())
    second.load_state_dict(file)
    for pair in (model, optimizer), (other, second):
        step(*pair)
    assert all(map(torch.equal, numbers(model), numbers(other)))


@pytest.mark.parametrize("flat", [False, True])
def test_distributed_checkpoint_on_disk(flat, alone, tmp_path):
    options = dcp.StateDictOptions(flatten_optimizer_state_dict=flat)
    model, optimizer = stepped(altgrad.optim.AdamW8bit)
    checkpoint.save({"o": dcp.get_optimizer_state_dict(model, optimizer, options=options)}, checkpoint_id=tmp_path / "file")
    other, second = stepped(altgrad.optim.AdamW8bit, steps=1)
    other.load_state_dict(model.state_dict())
    file = {"o": dcp.get_optimizer_state_dict(other, second, options=options)}
    checkpoint.load(file, checkpoint_id=tmp_path / "file")
    dcp.set_optimizer_state_dict(other, second, file["o"], options=options)
    for pair in (model, optimizer), (other, second):
        step(*pair)
    assert all(map(torch.equal, numbers(model), numbers(other)))


def test_a_file_between_storages():
    model, optimizer = stepped(altgrad.optim.AdamW8bit)
    for cls in (altgrad.optim.AdamWFp8, altgrad.optim.AdamW4bit, altgrad.optim.AdamW):
        other = cls(model.parameters())
        with pytest.raises(ValueError, match="the file's states are stored as 'states=bnb8u:256,keep_positive exp_avg=bnb8:256'"):
            other.load_state_dict(saved(optimizer))
        made = altgrad.transcode(saved(optimizer), to=other, params=list(model.parameters()), report=None)
        assert isinstance(made["state"][0]["exp_avg"], dict) == (cls is not altgrad.optim.AdamW)
        other.load_state_dict(made)
        step(model, other)
