"""altgrad.amp.GradScaler beside torch's: the same scales, trackers and parameters, without a pass of its own."""

import copy
import os
import pickle
from contextlib import nullcontext

import pytest
import torch
import twins
from torch.utils._python_dispatch import TorchDispatchMode

import altgrad

SCALER = dict(init_scale=128.0, growth_interval=2)


def scalers(**more):
    return altgrad.amp.GradScaler("cpu", **SCALER, **more), torch.amp.GradScaler("cpu", **SCALER)


def backward(params, scaler, step, spoiled=(2, 5)):
    """The same gradients on each twin of a step; in some steps one is not finite."""
    torch.manual_seed(step)
    for p in params:
        p.grad = None
    scaler.scale(sum((p * torch.randn(p.shape)).sum() for p in params)).backward()
    if step in spoiled:
        params[-1].grad.view(-1)[0] = float("inf" if step % 2 else "nan")


def numbers(scaler):
    return scaler.get_scale(), scaler._get_growth_tracker()


@pytest.mark.parametrize("name", ["AdamW", "SGD", "RMSprop", "Adagrad"])
@pytest.mark.parametrize("unscale", [False, True])
def test_scale_tracker_and_parameters_are_torchs(name, unscale):
    a, b = twins.make([(8,), (5, 3), (4097,)])
    ours, theirs = getattr(altgrad.optim, name)(a, lr=0.1), getattr(torch.optim, name)(b, lr=0.1)
    mine, other = scalers()
    for step in range(8):
        for params, scaler, optimizer in ((a, mine, ours), (b, other, theirs)):
            backward(params, scaler, step)
            if unscale:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
        assert numbers(mine) == numbers(other)
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)
    assert ours.skipped_steps == 2


def test_clip_is_of_what_is_unscaled():
    a, b = twins.make([(8,), (5, 3)])
    ours, theirs = altgrad.optim.AdamW(a, lr=0.1, max_grad_norm=0.5), torch.optim.AdamW(b, lr=0.1)
    mine, other = scalers()
    for step in range(6):
        backward(a, mine, step)
        mine.step(ours)
        mine.update()
        backward(b, other, step)
        other.unscale_(theirs)
        norm = torch.nn.utils.clip_grad_norm_(b, 0.5)
        other.step(theirs)
        other.update()
        torch.testing.assert_close(ours.grad_norm, norm, equal_nan=True)
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)


def test_gradients_are_not_written_and_a_skipped_step_changes_no_byte():
    params, = twins.make([(8,), (4097,)], count=1)
    optimizer = altgrad.optim.AdamW(params, lr=0.1, max_grad_norm=1.0)
    scaler, _ = scalers()
    for step in range(3):
        backward(params, scaler, step)
        kept = [p.detach().clone() for p in params]
        kept += [v.clone() for p in params for v in optimizer.state[p].values()]
        grads = [p.grad.clone() for p in params]
        scaler.step(optimizer)
        scaler.update()
        assert all(g.equal(p.grad) or g.isnan().any() for g, p in zip(grads, params))
    now = params + [v for p in params for v in optimizer.state[p].values()]
    assert all(map(torch.equal, kept, now))
    assert scaler.get_scale() == 128.0 and optimizer.skipped_steps == 1


@pytest.mark.parametrize("kinds", [(altgrad.optim, altgrad.optim), (altgrad.optim, torch.optim),
                                   (torch.optim, altgrad.optim)])
@pytest.mark.parametrize("spoiled", [0, 1])
def test_several_optimizers_share_a_scale(kinds, spoiled):
    """Each skips by its own gradients; the scale follows all of them, after the last."""
    a, b = twins.make([(8,), (5,)])
    mine, other = scalers()
    ours = [kind.SGD([p], lr=0.1) for kind, p in zip(kinds, a)]
    theirs = [torch.optim.SGD([p], lr=0.1) for p in b]
    for step in range(7):
        for params, scaler, optimizers in ((a, mine, ours), (b, other, theirs)):
            backward(params, scaler, step, spoiled=())
            if step == 3:
                params[spoiled].grad[0] = float("inf")
            for optimizer in optimizers:
                before = scaler.get_scale()
                scaler.step(optimizer)
                assert scaler.get_scale() == before
            scaler.update()
        assert numbers(mine) == numbers(other)
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)


def test_files_go_both_ways():
    a, = twins.make([(8,)], count=1)
    mine, other = scalers()
    optimizer = altgrad.optim.SGD(a, lr=0.1)
    for step in range(3):
        backward(a, mine, step, spoiled=())
        mine.step(optimizer)
        mine.update()
    other.load_state_dict(mine.state_dict())
    back = altgrad.amp.GradScaler("cpu", hysteresis=3)
    back.load_state_dict(other.state_dict())
    for scaler in (other, back):
        scaler.scale(torch.ones(1))
    assert numbers(mine) == numbers(other) == numbers(back)
    for copied in (pickle.loads(pickle.dumps(mine)), copy.deepcopy(mine)):
        copied.scale(torch.ones(1))
        assert numbers(copied) == numbers(mine)
        backward(a, copied, 9, spoiled=(9,))
        copied.step(optimizer)
        copied.update()
        assert copied.get_scale() == mine.get_scale() / 2


def followed(scaler, found):
    """The scales after steps of one number, infinite where `found` says so."""
    param = torch.nn.Parameter(torch.zeros(1))
    optimizer, scales = altgrad.optim.SGD([param], lr=0.0), []
    for bad in found:
        scaler.scale(param.sum()).backward()
        param.grad.fill_(float("inf") if bad else 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales


def test_limits_and_hysteresis():
    limited = altgrad.amp.GradScaler("cpu", 8.0, growth_interval=1, min_scale=3.0, max_scale=20.0)
    assert followed(limited, [0, 0, 1, 1, 1, 0]) == [16.0, 20.0, 10.0, 5.0, 3.0, 6.0]
    patient = altgrad.amp.GradScaler("cpu", 8.0, growth_interval=2, hysteresis=2)
    assert followed(patient, [1, 1, 1, 0, 0, 1, 1]) == [8.0, 4.0, 2.0, 2.0, 4.0, 4.0, 2.0]
    assert patient.state_dict()["hysteresis_tracker"] == 0


def test_variants_differ_when_the_interval_is_lowered():
    scales = {}
    for variant in ("torch", "boostr"):
        scaler = altgrad.amp.GradScaler("cpu", 8.0, growth_interval=10, variant=variant)
        followed(scaler, [0, 0, 0])
        scaler.set_growth_interval(2)
        scales[variant] = followed(scaler, [0, 0])
    assert scales == {"torch": [8.0, 8.0], "boostr": [16.0, 16.0]}
    huge = {variant: followed(altgrad.amp.GradScaler("cpu", 2.0**127, growth_interval=1,
                                                     variant=variant), [0])
            for variant in ("torch", "boostr")}
    assert huge == {"torch": [2.0**127], "boostr": [float("inf")]}


@pytest.mark.parametrize("bound", [None, 0.5])
@pytest.mark.parametrize("spoiled", [0, 1, None])
def test_what_torch_steps_beside_us_has_the_same_verdict(bound, spoiled):
    """float64 is torch's class's; either part's gradients stop both."""
    params = [torch.nn.Parameter(torch.ones(9, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
    optimizer = altgrad.optim.SGD(params, lr=1.0, max_grad_norm=bound)
    scaler, _ = scalers()
    scaler.scale(sum(p.sum() for p in params).float()).backward()
    if spoiled is not None:
        params[spoiled].grad[3] = float("nan")
    scaler.step(optimizer)
    scaler.update()
    share = 1.0 if bound is None else bound / (18**0.5 + 1e-6)
    wanted = 1.0 - share if spoiled is None else 1.0
    for p in params:
        torch.testing.assert_close(p.detach(), torch.full_like(p, wanted))
    assert scaler.get_scale() == (128.0 if spoiled is None else 64.0)
    params[0].grad = None  # torch's part alone
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == (64.0 if spoiled == 0 else 256.0 if spoiled is None else 32.0)


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="numbers of a device are copied there")
def test_a_steady_step_asks_no_operator_of_torch():
    """They take most of the time of a step whose tensors are small."""
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    params, = twins.make([(8,), (300,)], count=1)
    optimizer, scaler = altgrad.optim.AdamW(params, lr=0.1, max_grad_norm=1.0), altgrad.amp.GradScaler("cpu")
    for step in range(4):
        twins.give_grads(params)
        scaler.scale(torch.ones(()))
        with Watch() if step > 1 else nullcontext():
            scaler.step(optimizer)
            scaler.update()
    assert not seen, seen


def test_a_class_whose_own_step_takes_no_scaler():
    class Mine(altgrad.optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    a, b = twins.make([(8,), (5, 3)])
    ours, theirs = Mine(a, lr=0.1), torch.optim.SGD(b, lr=0.1)
    mine, other = scalers()
    for step in range(8):
        for params, scaler, optimizer in ((a, mine, ours), (b, other, theirs)):
            backward(params, scaler, step)
            scaler.step(optimizer)
            scaler.update()
        assert numbers(mine) == numbers(other)
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)
    assert ours.skipped_steps == 2
