"""With a float32 master copy, edits of the parameter between steps are taken into it."""

import copy

import pytest
import torch
import twins

import altgrad

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
