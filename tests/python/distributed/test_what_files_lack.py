"""torch.distributed.checkpoint loads a file that lacks keys which a step can do without, and no other one."""

import copy

import altgrad
import pytest
import torch
import torch.distributed.checkpoint as dcp
import twins
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_optimizer_state_dict, get_state_dict,
                                                     set_optimizer_state_dict, set_state_dict)

ADAMW, TORCH = altgrad.optim.AdamW, torch.optim.AdamW
LACKING = {  # (dtype, class and words of the file, words of the optimizer)
    "bound": (torch.float32, (TORCH, {}), dict(max_grad_norm=0.5)),
    "percentile": (torch.float32, (TORCH, {}), dict(max_grad_norm="percentile:50")),
    "agc": (torch.float32, (TORCH, {}), dict(max_grad_norm="agc:0.01")),
    "ours without": (torch.float32, (ADAMW, {}), dict(max_grad_norm=0.5, statistics=True)),
    "counts": (torch.float32, (TORCH, {}), dict(statistics=True, max_grad_norm=0.5)),
    "storage": (torch.bfloat16, (TORCH, {}), dict(storage="states=f32", max_grad_norm=0.5)),
    "draws": (torch.bfloat16, (TORCH, {}), dict(storage="param=bf16,stochastic", seed=7)),
    "master": (torch.bfloat16, (TORCH, {}), dict(storage="master=f32")),
    "remainder": (torch.bfloat16, (TORCH, {}), dict(storage="master=bf16+i16")),
    "copy": (torch.float32, (TORCH, {}), dict(storage="copy=ocp.e4m3fn")),
}


def made(dtype, kind, words):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 80), torch.nn.Linear(80, 5)).to(dtype)
    groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": 0.02}]
    return model, kind(groups, lr=0.01, **words)


def step(model, optimizer):
    model.zero_grad()
    model(torch.ones(64, dtype=next(model.parameters()).dtype)).square().sum().backward()
    optimizer.step()


def save(path, model, optimizer, options):
    state = dict(zip(("model", "optim"), get_state_dict(model, optimizer, options=options)))
    dcp.save({**state, "scheduler": {"last_epoch": 3}}, checkpoint_id=path, no_dist=True)


def load(path, model, optimizer, options):
    state = dict(zip(("model", "optim"), get_state_dict(model, optimizer, options=options)))
    dcp.load({**state, "scheduler": {"last_epoch": 0}}, checkpoint_id=path, no_dist=True)
    set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"], options=options)


@pytest.mark.parametrize("flat", (True, False), ids=("flat", "nested"))
@pytest.mark.parametrize("case", LACKING)
def test_what_a_file_lacks_is_as_in_a_file_of_torch_save(tmp_path, case, flat):
    dtype, of_file, words = LACKING[case]
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    step(*(saved := made(dtype, *of_file)))
    save(tmp_path / "file", *saved, options)
    model, optimizer = made(dtype, ADAMW, words)
    load(tmp_path / "file", model, optimizer, options)
    other, plain = made(dtype, ADAMW, words)
    other.load_state_dict(saved[0].state_dict())
    plain.load_state_dict(saved[1].state_dict())
    for _ in range(2):
        step(model, optimizer)
        step(other, plain)
        assert all(map(torch.equal, model.parameters(), other.parameters()))
    assert optimizer.max_grad_norm == plain.max_grad_norm == words.get("max_grad_norm")
    assert [group["lr"] for group in optimizer.param_groups] == [0.01, 0.02]


@pytest.mark.parametrize("flat", (True, False), ids=("flat", "nested"))
@pytest.mark.parametrize("case", LACKING)
def test_the_way_back(tmp_path, case, flat):
    """A file that has them loads where nobody asks, and where somebody does it says what it said."""
    dtype, of_file, words = LACKING[case]
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    step(*(saved := made(dtype, ADAMW, words)))
    save(tmp_path / "file", *saved, options)
    other = {key: 9.0 if value == 0.5 else value for key, value in words.items()}
    back, there = made(dtype, *of_file), made(dtype, ADAMW, other)
    for model, optimizer in back, there:
        load(tmp_path / "file", model, optimizer, options)
        assert all(map(torch.equal, model.parameters(), saved[0].parameters()))
    assert there[1].max_grad_norm == saved[1].max_grad_norm
    if "statistics" in words:
        assert there[1].statistics().steps == 1 == there[1].statistics().clipped_steps
    for _ in range(2):
        step(*saved)
        step(*there)
        assert all(map(torch.equal, saved[0].parameters(), there[0].parameters()))


@pytest.mark.parametrize("flat", (True, False), ids=("flat", "nested"))
def test_states_and_numbers_are_still_asked_for(tmp_path, flat):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    step(*(saved := made(torch.float32, torch.optim.RMSprop, {})))
    save(tmp_path / "file", *saved, options)
    with pytest.raises(CheckpointException, match="Missing key in checkpoint state_dict"):
        load(tmp_path / "file", *made(torch.float32, ADAMW, dict(max_grad_norm=0.5)), options)


@pytest.mark.parametrize("flat", (True, False), ids=("flat", "nested"))
@pytest.mark.parametrize("through", (copy.deepcopy, twins.through_a_file))
def test_a_copy_and_a_file_of_torch_save_load(flat, through):
    options = StateDictOptions(flatten_optimizer_state_dict=flat)
    step(*(saved := made(torch.float32, ADAMW, dict(max_grad_norm=0.5))))
    state = through(get_optimizer_state_dict(*saved, options=options))
    model, optimizer = made(torch.float32, ADAMW, dict(max_grad_norm=9.0))
    set_optimizer_state_dict(model, optimizer, state, options=options)
    assert optimizer.max_grad_norm == 0.5
    kept = lambda model, optimizer: [optimizer.state[param]["exp_avg"] for param in model.parameters()]
    assert all(map(torch.equal, kept(model, optimizer), kept(*saved)))


def test_another_optimizer_beside_is_asked_for_all(tmp_path):
    """Two optimizers have one flat file; only what altgrad's may lack may be missing."""
    options = StateDictOptions(flatten_optimizer_state_dict=True)
    def two():
        model, _ = made(torch.float32, TORCH, {})
        return model, (ADAMW(model[0].parameters(), max_grad_norm=0.5),
                       torch.optim.SGD(model[1].parameters(), momentum=0.9))
    model, both = two()
    state = get_optimizer_state_dict(model, both, options=options)
    state = {key: value for key, value in state.items() if not key.endswith(".max_grad_norm")}
    dcp.save(state, checkpoint_id=tmp_path / "file", no_dist=True)
    dcp.save({key: value for key, value in state.items() if not key.endswith("bias.nesterov")},
             checkpoint_id=tmp_path / "less", no_dist=True)
    model, both = two()
    state = get_optimizer_state_dict(model, both, options=options)
    dcp.load(state, checkpoint_id=tmp_path / "file", no_dist=True)
    set_optimizer_state_dict(model, both, state, options=options)
    assert both[0].max_grad_norm == 0.5
    with pytest.raises(CheckpointException, match="1.bias.nesterov"):
        dcp.load(get_optimizer_state_dict(model, both, options=options), checkpoint_id=tmp_path / "less", no_dist=True)
