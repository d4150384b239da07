"""A GradScaler of ours whose numbers somebody else touches in the middle, beside torch's."""

import math

import pytest
import torch

import altgrad

KINDS = torch.amp.GradScaler, altgrad.amp.GradScaler


def one(kind, **options):
    param = torch.nn.Parameter(torch.ones(3))
    return param, altgrad.optim.SGD([param], lr=0.1), kind("cpu", 8.0, **options)


def backward(scaler, param, bad=False):
    param.grad = None
    scaler.scale(param.sum()).backward()
    if bad:
        param.grad[1] = math.nan


TOUCHES = {
    "a checkpoint": lambda s: s.load_state_dict({**s.state_dict(), "scale": 512.0, "_growth_tracker": 4}),
    "factors": lambda s: (s.set_growth_interval(1), s.set_growth_factor(4.0), s.set_backoff_factor(0.25)),
    "the scale in place": lambda s: s._scale.fill_(32.0),
    "another scale": lambda s: setattr(s, "_scale", torch.tensor(128).to(s._scale)),
    "another tracker": lambda s: setattr(s, "_growth_tracker", torch.tensor(4, dtype=torch.int32)),
}


@pytest.mark.parametrize("touch", TOUCHES)
@pytest.mark.parametrize("bad", [False, True])
@pytest.mark.parametrize("before", [False, True])
def test_numbers_are_taken_where_they_change_around_a_step(touch, bad, before):
    said = []
    for kind in KINDS:
        param, optimizer, scaler = one(kind, growth_interval=5)
        backward(scaler, param)
        scaler.step(optimizer)
        scaler.update()
        if before:
            TOUCHES[touch](scaler)
        backward(scaler, param, bad)
        scaler.step(optimizer)
        if not before:
            TOUCHES[touch](scaler)
        scaler.update()
        backward(scaler, param)
        scaler.step(optimizer)
        scaler.update()
        said.append((scaler.get_scale(), scaler._get_growth_tracker(), *param.tolist()))
    assert said[0] == said[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_loss_scaled_before_a_step_goes_backward_after_it(kind):
    a, first, scaler = one(kind)
    b, second, _ = one(kind)
    for factor in (2.0, 3.0):
        losses = [scaler.scale((p * p).sum()) for p in (a, b)]
        scaler.set_growth_factor(factor)
        for loss, optimizer in zip(losses, (first, second)):
            loss.backward()
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()
    assert a.equal(b)


def test_under_compile():
    param, optimizer, scaler = one(altgrad.amp.GradScaler)
    backward(scaler, param)
    step = torch.compile(lambda: (scaler.step(optimizer), scaler.update()), backend="eager")
    for _ in range(2):
        step()
    assert scaler._get_growth_tracker() == 2
    torch.testing.assert_close(param.detach(), torch.full((3,), 0.8))


def test_scalers_by_turns_each_have_their_scale():
    param, optimizer, _ = one(altgrad.amp.GradScaler)
    scalers = [altgrad.amp.GradScaler("cpu", 2.0**k) for k in range(4)]
    for turn in range(6):
        for scaler in scalers:
            backward(scaler, param)
            before = param.detach().clone()
            scaler.step(optimizer)
            scaler.update()
            torch.testing.assert_close(param.detach(), before - 0.1)
        scalers[turn % 4] = altgrad.amp.GradScaler("cpu", 2.0**(turn + 5))
