"""Each param_group may store its states otherwise: one program, one norm, and a file that says it for each group."""

import copy
import io
import pickle

import pytest
import torch

import altgrad

SHAPES = (64, 128), (96, 64), (4096,)
GROUPS = {0: {}, 1: {"storage": "states=f32"}, 2: {"storage": "m=bf16 v=ocp.e5m2:128,keep_positive"}}
DTYPES = {0: ("uint8", "uint8"), 1: ("float32", "float32"), 2: ("bfloat16", "float8_e5m2")}


def made(seed=0):
    torch.manual_seed(seed)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    return params, altgrad.optim.AdamW8bit([{"params": [param], **GROUPS[index]} for index, param in enumerate(params)],
                                           lr=0.01, max_grad_norm=1.0)


def run(params, optimizer, steps, first=0):
    for step in range(first, first + steps):
        torch.manual_seed(100 + step)
        for param in params:
            param.grad = torch.randn(param.shape)
        optimizer.step()
    return [param.detach().clone() for param in params]


def alone(index, norms):
    """One parameter by itself in an optimizer of its storage, with gradients clipped by the common norms."""
    words = str(GROUPS[index].get("storage", ""))
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    optimizer = altgrad.optim.AdamW8bit([params[index]], lr=0.01, storage=words)
    for step, norm in enumerate(norms):
        torch.manual_seed(100 + step)
        grads = [torch.randn(param.shape) for param in params]
        params[index].grad = grads[index] * min(1.0, 1.0 / (norm + 1e-6))
        optimizer.step()
    return params[index], optimizer.state[params[index]]


def test_each_group_has_its_formats_under_one_norm():
    params, optimizer = made()
    norms = []
    for step in range(5):
        run(params, optimizer, 1, step)
        norms.append(torch.cat([param.grad.flatten() for param in params]).norm().item())
        assert optimizer.grad_norm.item() == pytest.approx(norms[-1], rel=1e-6)
    assert len(optimizer._built.tables) == 1
    for index, param in enumerate(params):
        held = optimizer.state[param]
        assert tuple(str(held[key].dtype).removeprefix("torch.") for key in ("exp_avg", "exp_avg_sq")) == DTYPES[index]
        expected, states = alone(index, norms)
        torch.testing.assert_close(param, expected, rtol=1e-5, atol=1e-5)
        assert {key: value.dtype for key, value in held.items()} == {key: value.dtype for key, value in states.items()}


@pytest.mark.parametrize("copied", ["file", "deepcopy", "pickle"])
def test_a_run_goes_on_with_the_same_bits(copied):
    params, optimizer = made()
    run(params, optimizer, 3)
    if copied == "file":
        others, again = made(seed=1)
        kept = io.BytesIO()
        torch.save(optimizer.state_dict(), kept)
        kept.seek(0)
        again.load_state_dict(torch.load(kept))
        for other, param in zip(others, params):
            other.data.copy_(param.data)
    else:
        others, again = copy.deepcopy((params, optimizer)) if copied == "deepcopy" else pickle.loads(pickle.dumps((params, optimizer)))
    assert [group["storage"] for group in again.param_groups] == [group["storage"] for group in optimizer.param_groups]
    for a, b in zip(run(params, optimizer, 2, 3), run(others, again, 2, 3)):
        assert a.equal(b)


def test_a_file_of_other_groups_is_refused_and_transcoded():
    params, optimizer = made()
    run(params, optimizer, 2)
    plain = [torch.nn.Parameter(param.detach().clone()) for param in params]
    other = altgrad.optim.AdamW([{"params": [param]} for param in plain], storage="states=bf16")
    with pytest.raises(ValueError, match="the file's states are stored as"):
        other.load_state_dict(optimizer.state_dict())
    there = altgrad.transcode(optimizer.state_dict(), to=other, report=None)
    other.load_state_dict(there)
    optimizer.load_state_dict(altgrad.transcode(other.state_dict(), to=optimizer, report=None))
    assert optimizer.state[params[1]]["exp_avg"].dtype == torch.float32
    assert optimizer.state[params[0]]["exp_avg"].dtype == torch.uint8


def test_a_group_alone_may_have_a_storage_and_draw():
    params = [torch.nn.Parameter(torch.randn(64, 64)) for _ in range(2)]
    optimizer = altgrad.optim.Lion([{"params": params[:1]}, {"params": params[1:], "storage": "m=bf16,stochastic"}], lr=0.01)
    run(params, optimizer, 2)
    assert [optimizer.state[param]["exp_avg"].dtype for param in params] == [torch.float32, torch.bfloat16]
    assert optimizer.param_groups[0]["draws"].item() == 2


def test_a_groups_storage_that_its_states_do_not_have_is_refused_at_the_next_step():
    params = [torch.nn.Parameter(torch.ones(64, 256)) for _ in range(2)]
    optimizer = altgrad.optim.FromRule("adamw", storage="states=bnb8:256")([{"params": params[:1]}, {"params": params[1:], "storage": "states=f32"}])
    for param in params:
        param.grad = torch.ones_like(param)
    optimizer.step()
    before = [param.clone() for param in params]
    for group, line in (1, "states=bnb8:64"), (0, "states=bnb8:64"):
        said = optimizer.param_groups[group].copy()
        optimizer.param_groups[group]["storage"] = line
        with pytest.raises((TypeError, ValueError), match="make the optimizer with the storage that its states have|of shape .*; expected"):
            optimizer.step()
        optimizer.param_groups[group].clear()
        optimizer.param_groups[group].update(said)
    assert all(map(torch.equal, params, before))
    optimizer.step()
