"""Checkpoints and copies: keys as torch's, dtypes kept, both ways between torch and altgrad."""

import copy
import pickle

import pytest
import torch
import twins

import altgrad

NAMES = [("AdamW", dict(amsgrad=True)), ("Adam", {}), ("SGD", dict(momentum=0.9, dampening=0.5)),
         ("Adagrad", {}), ("RMSprop", dict(centered=True, momentum=0.9))]


def train(optimizer, params, steps=3):
    for _ in range(steps):
        twins.give_grads(params)
        optimizer.step()


@pytest.mark.parametrize("name, kwargs", NAMES)
@pytest.mark.parametrize("forward", [True, False])
def test_round_trip_with_torch(name, kwargs, forward):
    """Three steps in one library, three in the other: as six in torch."""
    a, b = twins.make()
    ours, theirs = getattr(altgrad.optim, name), getattr(torch.optim, name)
    first, second = (theirs, ours) if forward else (ours, theirs)
    whole, begun = theirs(b, **kwargs), first(a, **kwargs)
    for optimizer, params in ((begun, a), (whole, b)):
        torch.manual_seed(1)
        train(optimizer, params)
    ended = second(a, **kwargs)
    ended.load_state_dict(twins.through_a_file(begun.state_dict()))
    for optimizer, params in ((ended, a), (whole, b)):
        torch.manual_seed(2)
        train(optimizer, params)
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)
    assert set(ended.state_dict()["param_groups"][0]) == set(whole.state_dict()["param_groups"][0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("storage", ["m=f32 v=f32", "m=bf16 v=ocp.e5m2",
                                     "master=f32 copy=ocp.e4m3fn"])
def test_every_state_keeps_dtype_and_bytes(dtype, storage):
    params, = twins.make([(8,), (5, 3)], dtype=dtype, count=1)
    make = altgrad.optim.FromRule("adamw", storage=storage)
    optimizer = make(params)
    train(optimizer, params)
    saved = copy.deepcopy(optimizer.state_dict())
    other = make(params)
    other.load_state_dict(twins.through_a_file(saved))
    for index, held in other.state_dict()["state"].items():
        for key, value in held.items():
            before = saved["state"][index][key]
            assert value.dtype == before.dtype and value.shape == before.shape
            assert torch.equal(value.view(torch.uint8) if value.dim() else value,
                               before.view(torch.uint8) if value.dim() else before)
    train(other, params, 1)


def test_float32_states_of_a_bfloat16_model_stay_float32():
    params, = twins.make([(8,)], dtype=torch.bfloat16, count=1)
    optimizer = altgrad.optim.AdamW(params)
    train(optimizer, params, 1)
    saved = copy.deepcopy(optimizer.state_dict())
    saved["state"][0]["exp_avg"] = torch.full((8,), 1 / 3)
    optimizer.load_state_dict(saved)
    assert torch.equal(optimizer.state[params[0]]["exp_avg"], torch.full((8,), 1 / 3))
    train(optimizer, params, 1)
    assert optimizer.state[params[0]]["exp_avg"].dtype == torch.float32


def test_older_checkpoint():
    """No newer keys in the groups, the step count a number."""
    a, b = twins.make([(8,)])
    optimizer = altgrad.optim.AdamW(a)
    train(optimizer, a)
    saved = optimizer.state_dict()
    for key in ("amsgrad", "maximize", "foreach", "capturable", "differentiable", "fused",
                "decoupled_weight_decay"):
        del saved["param_groups"][0][key]
    saved["state"][0]["step"] = 3
    optimizer.load_state_dict(saved)
    train(optimizer, a, 1)
    assert optimizer.state[a[0]]["step"].item() == 4
    assert optimizer.param_groups[0]["decoupled_weight_decay"] is True


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
@pytest.mark.parametrize("make", [altgrad.optim.SGD, altgrad.optim.FromRule("adamw", "m=bf16")])
def test_copies_go_on_alone(clone, make):
    a, b = twins.make([(8,)])
    kwargs = dict(momentum=0.9) if make is altgrad.optim.SGD else {}
    optimizer = make(a, lr=0.1, max_grad_norm=1.0, fused_amp=True, **kwargs)
    train(optimizer, a)
    other = clone(optimizer)
    mine = other.param_groups[0]["params"]
    assert (other.max_grad_norm, other._step_supports_amp_scaling) == (1.0, True)
    twins.give_grads(a, mine)
    optimizer.step()
    other.step()
    assert mine[0] is not a[0] and torch.equal(mine[0], a[0])


def test_load_refuses_a_state_of_another_shape_at_the_step():
    a, = twins.make([(8,)], count=1)
    b, = twins.make([(5,)], count=1)
    optimizer, other = altgrad.optim.AdamW(a), altgrad.optim.AdamW(b)
    train(other, b)
    optimizer.load_state_dict(other.state_dict())
    before = a[0].detach().clone()
    with pytest.raises(ValueError, match=r"state 'exp_avg' of shape \(5,\)"):
        train(optimizer, a, 1)
    assert torch.equal(a[0], before)


def test_named_parameters_and_hooks():
    model = torch.nn.Linear(3, 2)
    optimizer = altgrad.optim.AdamW(model.named_parameters())
    seen = []
    optimizer.register_step_pre_hook(lambda *_: seen.append("pre"))
    optimizer.register_step_post_hook(lambda *_: seen.append("post"))
    optimizer.register_load_state_dict_post_hook(
        lambda o: seen.append(o.state[model.weight]["exp_avg"].dtype))
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]
    train(optimizer, list(model.parameters()), 1)
    assert seen == ["pre", "post"]
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen[2:] == [torch.float32]


@pytest.mark.parametrize("name", ["AdamW", "Adagrad", "SGD"])
def test_what_a_user_keeps_in_the_state(name):
    """Before the first step and between two; torch's classes do not look at it."""
    params, = twins.make([(8,), (5,)], count=1)
    optimizer = getattr(altgrad.optim, name)(params)
    twins.give_grads(params)
    optimizer.state["own"] = torch.tensor(3)
    optimizer.step()
    optimizer.state["more"] = 4
    before = params[0].detach().clone()
    optimizer.step()
    assert optimizer.state["own"] == 3 and optimizer.state["more"] == 4
    assert not torch.equal(before, params[0])
    if name == "Adagrad":
        optimizer.share_memory()
    optimizer.step()


def test_an_empty_dict_that_a_user_keeps_in_a_group_is_loaded():
    """It means something else only where torch.distributed.checkpoint makes it."""
    optimizer, other = (altgrad.optim.AdamW([torch.nn.Parameter(torch.ones(4))]) for _ in range(2))
    optimizer.param_groups[0]["mine"] = {}
    other.load_state_dict(optimizer.state_dict())
    assert other.param_groups[0]["mine"] == {}


@pytest.mark.parametrize("name, kwargs", [
    ("AdamW", dict(amsgrad=True)), ("SGD", dict(momentum=0.9)), ("NorMuon", {}), ("AdamW4bit", {}),
    ("AdamW", dict(storage="master=f32 copy=mxfp8"))])
def test_a_state_that_is_no_tensor_is_refused_by_its_name(name, kwargs):
    """In a file before anything is loaded, in `state` before anything is stepped."""
    make = lambda: torch.nn.Parameter(torch.ones(64, 128, dtype=torch.bfloat16 if "storage" in kwargs else torch.float32))
    optimizer = getattr(altgrad.optim, name)([param := make()], **kwargs)
    train(optimizer, [param], 1)
    saved = optimizer.state_dict()
    for key in set(saved["state"][0]) - {"step"}:
        for wrong in ([1.0], "x", 1.5, {}, {"codes": [1]}, b"y", (), torch.ones(64, 128).numpy(), torch.Tensor):
            broken = {**saved, "state": {0: {**saved["state"][0], key: wrong}}}
            before = optimizer.state[param][key]
            with pytest.raises(TypeError, match=f"the state of parameter 0 of the file has '{key}' as {type(wrong).__name__}, "):
                optimizer.load_state_dict(broken)
            assert optimizer.state[param][key] is before
            other = getattr(altgrad.optim, name)([held := make()], **kwargs)
            train(other, [held], 1)
            other.state[held][key], start = wrong, held.detach().clone()
            with pytest.raises((TypeError, ValueError), match=f"'{key}'"):
                train(other, [held], 1)
            assert torch.equal(held, start)
