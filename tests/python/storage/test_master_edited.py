"""With a float32 master copy, edits of the parameter between steps are taken into it."""

import copy

import pytest
import torch
import twins

import altgrad
from altgrad import _core

MASTER = altgrad.optim.FromRule("adamw", storage="master=f32")


def trained(steps=3):
    params, = twins.make([(64,), (5, 3)], dtype=torch.bfloat16, count=1)
    optimizer = MASTER(params, lr=1e-3, decay=0.0)
    for _ in range(steps):
        twins.give_grads(params)
        optimizer.step()
    return optimizer, params


@pytest.mark.parametrize("shape", ["dense", "strided"])
def test_a_clamp_is_kept(shape):
    optimizer, params = trained()
    if shape == "strided":
        wide = torch.zeros(64, 2, dtype=torch.bfloat16)
        wide[:, 0] = params[0].detach()
        params[0].data = wide[:, 0]
    masters = [optimizer.state[p]["master"].clone() for p in params]
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    optimizer.step()
    with torch.no_grad():
        params[0].clamp_(-0.5, 0.5)
    optimizer.step()
    kept = masters[0].to(torch.bfloat16).abs() <= 0.5
    after = optimizer.state[params[0]]["master"]
    assert not kept.all() and (after[~kept].abs() == 0.5).all()
    # What was not edited keeps the bits that the parameter has no room for.
    assert torch.equal(after[kept], masters[0][kept])
    assert torch.equal(optimizer.state[params[1]]["master"], masters[1])
    assert torch.equal(params[0], after.to(torch.bfloat16))


def test_weights_loaded_later_reach_the_master_copy():
    optimizer, params = trained()
    with torch.no_grad():
        params[0].copy_(torch.full((64,), 2.0))
    optimizer.param_groups[0]["lr"] = 0.0
    optimizer.step()
    assert (optimizer.state[params[0]]["master"] == 2.0).all() and (params[0] == 2.0).all()


@pytest.mark.parametrize("model_first", [True, False])
def test_a_checkpoint_keeps_every_bit_of_the_master(model_first):
    optimizer, params = trained()
    weights, saved = [p.detach().clone() for p in params], copy.deepcopy(optimizer.state_dict())
    others, = twins.make([(64,), (5, 3)], dtype=torch.bfloat16, count=1)
    other = MASTER(others, lr=1e-3, decay=0.0)

    def load_weights():
        with torch.no_grad():
            for p, w in zip(others, weights):
                p.copy_(w)

    if model_first:
        load_weights()
    other.load_state_dict(saved)
    if not model_first:
        load_weights()
    twins.give_grads(params, others)
    optimizer.step()
    other.step()
    for p, q in zip(params, others):
        assert torch.equal(optimizer.state[p]["master"], other.state[q]["master"])


@pytest.mark.parametrize("count", [1, 7, 8, 4099, 65536])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_edits_are_taken_bit_by_bit_as_torch_finds_them(dtype, count):
    from altgrad._binding.layout import FORMATS
    from altgrad._library import library
    codes = torch.randperm(65536)[:count].to(torch.int16)
    param = codes.view(dtype)
    near = (param.float() * (1 + 2.0**-11 * torch.randn(count))).where(torch.rand(count) < 0.7, torch.randn(count))
    near[torch.rand(count) < 0.05] = float("nan")
    near[torch.rand(count) < 0.05] = 0.0
    expected = torch.where((param != near.to(dtype)), param.float(), near)
    library().altgrad_take_edits(FORMATS[dtype].encode(), param.data_ptr(), near.data_ptr(), count)
    assert torch.equal(near.view(torch.int32), expected.view(torch.int32))


@pytest.mark.parametrize("shape", [(3, 5), (4097,), (70, 1001)])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_edit_of_a_whole_model_is_taken(dtype, shape):
    params, = twins.make([shape], dtype=dtype, count=1)
    optimizer = MASTER(params, lr=0.0, decay=0.0)
    twins.give_grads(params)
    optimizer.step()
    master = optimizer.state[params[0]]["master"]
    with torch.no_grad():
        master.mul_(1 + 2.0**-13)
        edited = torch.rand(shape) < 0.5
        params[0].copy_(torch.where(edited, params[0] * 2 + 1, master.to(dtype)))
    expected = torch.where(params[0] != master.to(dtype), params[0].float(), master)
    optimizer.step()
    assert torch.equal(master, expected) and torch.equal(params[0], expected.to(dtype))


def test_edits_are_found_where_nobody_knows_where_torch_keeps_versions():
    def run():
        torch.manual_seed(0)
        param = torch.nn.Parameter(torch.randn(40, 3).to(torch.bfloat16).t())
        optimizer = altgrad.optim.FromRule("adamw", storage="param=bf16,stochastic master=f32")([param], lr=0.1, seed=3)
        for step in range(6):
            param.grad = torch.randn_like(param)
            optimizer.step()
            if step == 3:
                with torch.no_grad():
                    param[0] *= 2
        return [param.detach(), *optimizer.state[param].values()], param._version

    expected = run()
    _core.tell(_core.core(), version=(-1, 0))
    try:
        found = run()
    finally:
        _core.tell(_core.core())
    assert all(map(torch.equal, found[0], expected[0])) and found[1] == expected[1]
