"""torch.amp.GradScaler on the CPU: its plain way, and the two tensors with fused_amp=True."""

import pytest
import torch
import twins

import altgrad

NAMES = ["AdamW", "SGD", "RMSprop"]


def scaled_backward(params, scaler, spoil=False):
    """Gradients of a loss scaled by `scaler`, one of them infinite on request."""
    scaler.scale(sum((p * torch.randn(p.shape)).sum() for p in params)).backward()
    if spoil:
        params[-1].grad.view(-1)[0] = float("inf")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fused_amp", [False, True])
@pytest.mark.parametrize("unscale", [False, True])
def test_scaler_on_cpu(name, fused_amp, unscale):
    a, b = twins.make([(8,), (5, 3), (4097,)])
    ours = getattr(altgrad.optim, name)(a, lr=0.1, fused_amp=fused_amp)
    theirs = getattr(torch.optim, name)(b, lr=0.1)
    assert ours._step_supports_amp_scaling is fused_amp
    mine, other = (torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=2) for _ in "ab")
    for step in range(6):
        for params, scaler, optimizer in ((a, mine, ours), (b, other, theirs)):
            torch.manual_seed(step)
            optimizer.zero_grad()
            scaled_backward(params, scaler, spoil=step == 3)
            if unscale:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert mine.get_scale() == other.get_scale()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)
    if name == "AdamW":
        assert ours.state[a[0]]["step"] == 5


@pytest.mark.parametrize("found", [1.0, 2.0])
@pytest.mark.parametrize("name", NAMES + ["Adagrad", "ADOPT"])
def test_found_inf_writes_nothing(name, found):
    """Tested as not equal to 0: two devices give 2."""
    params, = twins.make([(8,)], count=1)
    optimizer = getattr(altgrad.optim, name)(params, fused_amp=True)
    twins.give_grads(params)
    optimizer.step()
    kept = [params[0].detach().clone(), *(v.clone() for v in optimizer.state[params[0]].values())]
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(2.0), torch.tensor(found)
    optimizer.step()
    assert all(map(torch.equal, kept, [params[0], *optimizer.state[params[0]].values()]))


def test_first_momentum_step_is_not_lost_by_a_skip():
    a, b = twins.make([(8,)])
    kwargs = dict(lr=0.1, momentum=0.9, dampening=0.5)
    ours, theirs = altgrad.optim.SGD(a, fused_amp=True, **kwargs), torch.optim.SGD(b, **kwargs)
    twins.give_grads(a, b)
    ours.found_inf = torch.tensor(1.0)
    ours.step()
    ours.found_inf = 0
    for _ in range(3):
        ours.step()
        theirs.step()
    torch.testing.assert_close(a[0], b[0])


def test_scale_of_float16_gradients_and_no_gradient_at_all():
    params, = twins.make([(8,)], dtype=torch.float16, count=1)
    optimizer = altgrad.optim.SGD(params, lr=1.0, fused_amp=True)
    before = params[0].detach().clone()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale((params[0] * 0.5).sum()).backward()
    scaler.step(optimizer)
    torch.testing.assert_close(params[0], before - 0.5)
    assert torch.equal(params[0].grad, torch.full((8,), 4.0, dtype=torch.float16))
    optimizer.zero_grad()
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(8.0), 0
    optimizer.step()


def test_scaler_with_clip():
    a, b = twins.make([(8,), (5, 3)])
    ours = altgrad.optim.AdamW(a, lr=0.1, max_grad_norm=0.5, fused_amp=True)
    theirs = torch.optim.AdamW(b, lr=0.1)
    for _ in range(4):
        twins.give_grads(a, b)
        for p in a:
            p.grad.mul_(64.0)
        ours.grad_scale, ours.found_inf = torch.tensor(64.0), torch.tensor(0.0)
        norm = torch.nn.utils.clip_grad_norm_(b, 0.5)
        ours.step()
        theirs.step()
        torch.testing.assert_close(ours.grad_norm, norm)
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)
