"""A parameter's state is there as a whole or begins: nothing goes on from half of one."""

import copy
import os

import pytest
import torch
import twins

import altgrad

UNREAD = pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="nobody waits for a device's count")
KEYS = {"AdamW": ("exp_avg", "exp_avg_sq", "step"), "RMSprop": ("square_avg", "step"), "Adagrad": ("sum", "step")}


def trained(name, **words):
    params, = twins.make([(5,), (3, 4)], count=1)
    optimizer = getattr(altgrad.optim, name)(params, lr=0.1, **words)
    for _ in range(3):
        twins.give_grads(params)
        optimizer.step()
    return optimizer, params


@pytest.mark.parametrize("gone", ["lost", "none"])
@pytest.mark.parametrize("name, key", [(name, key) for name, keys in KEYS.items() for key in keys])
def test_a_file_that_lost_a_state_is_refused(name, key, gone):
    optimizer, params = trained(name)
    before, saved = [p.detach().clone() for p in params], copy.deepcopy(optimizer.state_dict())
    saved["state"][1][key] = None
    if gone == "lost":
        del saved["state"][1][key]
    with pytest.raises((ValueError, TypeError), match=f"parameter 1.* no '{key}'|step count None"):
        optimizer.load_state_dict(saved)
        twins.give_grads(params)
        optimizer.step()
    assert all(map(torch.equal, before, params))


def test_a_parameter_without_any_state_begins():
    optimizer, params = trained("AdamW")
    saved = copy.deepcopy(optimizer.state_dict())
    del saved["state"][1]
    optimizer.load_state_dict(saved)
    twins.give_grads(params)
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in params] == [4, 1]


@pytest.mark.parametrize("name, option, key", [
    ("AdamW", dict(amsgrad=True), "max_exp_avg_sq"), ("RMSprop", dict(centered=True), "grad_avg"),
    ("RMSprop", dict(momentum=0.9), "momentum_buffer")])
def test_an_option_that_is_switched_on_begins_its_own_state(name, option, key):
    optimizer, params = trained(name)
    optimizer.param_groups[0].update(option)
    twins.give_grads(params)
    optimizer.step()
    assert all(key in optimizer.state[p] and optimizer.state[p]["step"] == 4 for p in params)


def test_a_state_key_that_is_no_text_is_the_users():
    optimizer, params = trained("AdamW", storage="states=bf16")
    optimizer.state[params[0]][7] = torch.ones(2)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    twins.give_grads(params)
    optimizer.step()
    assert torch.equal(optimizer.state[params[0]][7], torch.ones(2))


@UNREAD
@pytest.mark.parametrize("tensor", [True, False])
@pytest.mark.parametrize("count", [-1.0, -5.0, float("inf"), float("nan"), 1e30])
def test_a_count_that_counts_nothing_is_refused_at_load_and_in_the_step(count, tensor):
    optimizer, params = trained("AdamW")
    before, saved = params[0].detach().clone(), copy.deepcopy(optimizer.state_dict())
    saved["state"][0]["step"] = torch.tensor(count) if tensor else count
    with pytest.raises(ValueError, match="state of parameter 0 of the file: a step count is"):
        optimizer.load_state_dict(saved)
    optimizer.state[params[0]]["step"] = torch.tensor(count)
    with pytest.raises(ValueError, match="a step count is"):
        optimizer.step()
    assert torch.equal(before, params[0])


@pytest.mark.parametrize("name", ["AdamW8bit", "AdamW4bit", "AdamWFp8", "LionFp8"])
def test_memory_that_runs_out_leaves_no_half_of_a_state(name, monkeypatch):
    params = [torch.nn.Parameter(torch.randn(4096)) for _ in range(2)]
    optimizer, made = getattr(altgrad.optim, name)(params, lr=0.1), []
    twins.give_grads(params)
    empty = torch.empty_strided

    def runs_out(*shape, **words):
        made.append(shape)
        if len(made) == 2:
            raise MemoryError
        return empty(*shape, **words)
    monkeypatch.setattr(torch, "empty_strided", runs_out)
    with pytest.raises(MemoryError):
        optimizer.step()
    monkeypatch.undo()
    assert not any(optimizer.state.get(p) for p in params)
    optimizer.step()
    assert all(optimizer.state[p] for p in params)


@pytest.mark.parametrize("key, value", [*[("exp_avg_sq", of) for of in (None, "x", 1.0, torch.ones(3))],
                                        *[("step", of) for of in ("x", None, torch.ones(3))],
                                        pytest.param("step", torch.tensor(-1.0), marks=UNREAD)])
def test_a_state_that_torch_steps_is_one(key, value):
    params = [torch.nn.Parameter(torch.ones(4, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
    optimizer = altgrad.optim.AdamW(params, lr=0.1)
    for _ in range(2):
        twins.give_grads(params)
        optimizer.step()
    held = optimizer.state[params[1]]
    held[key] = value
    before = [p.detach().clone() for p in (*params, held["exp_avg"])]
    with pytest.raises((TypeError, ValueError), match=f"state of parameter 1.*: (exp_avg_sq|step|a step count) "):
        optimizer.step()
    assert all(map(torch.equal, before, (*params, held["exp_avg"])))
