"""Hyper-parameters are data: per group, moved by schedulers, numbers or tensors."""

import pytest
import torch
import twins

import altgrad

SCHEDULERS = [
    lambda o: torch.optim.lr_scheduler.StepLR(o, 2, gamma=0.5),
    lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 10),
    lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda t: 1 / (1 + t)),
    lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=20),
]


def both(name, a, b, **kwargs):
    return getattr(altgrad.optim, name)(a, **kwargs), getattr(torch.optim, name)(b, **kwargs)


def check_steps(ours, theirs, a, b, after=None, steps=6):
    for _ in range(steps):
        twins.give_grads(a, b)
        ours.step()
        theirs.step()
        if after:
            after()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)


@pytest.mark.parametrize("name", ["AdamW", "SGD", "RMSprop"])
def test_groups_differ_in_hypers_and_options(name):
    a, b = twins.make()
    groups = lambda ps: [dict(params=ps[:3], lr=0.1), dict(params=ps[3:5], weight_decay=0.3),
                         dict(params=ps[5:], lr=0.01, maximize=True)]
    ours, theirs = both(name, groups(a), groups(b), lr=0.05)
    check_steps(ours, theirs, a, b)


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("name", ["AdamW", "SGD"])
@pytest.mark.parametrize("tensor", [False, True])
def test_schedulers(name, scheduler, tensor):
    a, b = twins.make([(8,), (5, 3)])
    kwargs = dict(momentum=0.9) if name == "SGD" else {}
    ours, theirs = both(name, a, b, lr=0.1, **kwargs)
    if tensor:
        ours.param_groups[0]["lr"] = torch.tensor(0.1)
    moves = [scheduler(ours), scheduler(theirs)]
    check_steps(ours, theirs, a, b, lambda: [move.step() for move in moves], steps=10)


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_tensor_lr_and_mixed_betas(shape):
    a, b = twins.make([(8,), (5, 3)])
    ours, theirs = both("AdamW", a, b, lr=0.01)
    ours.param_groups[0]["lr"] = torch.full(shape, 0.01)
    ours.param_groups[0]["betas"] = (torch.full(shape, 0.9), 0.999)
    check_steps(ours, theirs, a, b)


def test_tensor_lr_of_two_elements_is_refused_before_anything_changes():
    a, = twins.make([(8,)], count=1)
    optimizer = altgrad.optim.AdamW(a)
    optimizer.param_groups[0]["lr"] = torch.ones(2)
    twins.give_grads(a)
    before = a[0].detach().clone()
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        optimizer.step()
    assert torch.equal(a[0], before) and not optimizer.state


@pytest.mark.parametrize("name", ["AdamW", "Lion", "LAMB", "Muon"])
def test_constructor_refuses_tensor_lr_of_two_elements(name):
    with pytest.raises(ValueError, match="Tensor lr must be 1-element"):
        getattr(altgrad.optim, name)([torch.nn.Parameter(torch.ones(4, 4))], lr=torch.ones(2))


def test_group_added_later_and_option_switched_later():
    a, b = twins.make()
    ours, theirs = both("SGD", a[:4], b[:4], lr=0.1, momentum=0.9)
    check_steps(ours, theirs, a[:4], b[:4], steps=3)
    for optimizer, params in ((ours, a), (theirs, b)):
        optimizer.add_param_group(dict(params=params[4:], momentum=0.0))
    check_steps(ours, theirs, a, b, steps=3)
    for optimizer in (ours, theirs):
        optimizer.param_groups[1].update(momentum=0.5, dampening=0.5)
        optimizer.param_groups[0]["maximize"] = True
    check_steps(ours, theirs, a, b, steps=3)


def test_gradients_come_and_go():
    """A parameter without a gradient keeps its bytes and its step count, or gets no state."""
    a, b = twins.make([(8,), (5, 3), (7,)])
    ours, theirs = both("AdamW", a, b, lr=0.1)
    for step in range(8):
        twins.give_grads(a, b)
        for params in (a, b):
            params[0].grad = None if step % 3 else params[0].grad
            params[2].grad = None
        ours.step()
        theirs.step()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)
        assert (p in ours.state) == (q in theirs.state)
    assert ours.state[a[0]]["step"] == theirs.state[b[0]]["step"] == 3


def test_parameter_data_and_states_replaced_by_hand():
    a, b = twins.make([(8,), (5, 3)])
    ours, theirs = both("AdamW", a, b, lr=0.1)
    check_steps(ours, theirs, a, b, steps=2)
    for optimizer, params in ((ours, a), (theirs, b)):
        for p in params:
            p.data = p.data.clone()
            optimizer.state[p]["exp_avg"] = torch.ones_like(p)
            optimizer.state[p]["exp_avg_sq"].data = torch.ones_like(p)
            optimizer.state[p]["step"] = torch.tensor(7.0)
    check_steps(ours, theirs, a, b, steps=2)


def test_closure_and_version_counters():
    a, = twins.make([(8,)], count=1)
    optimizer = altgrad.optim.AdamW(a)

    def closure():
        optimizer.zero_grad()
        loss = (a[0] ** 2).sum()
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert first.requires_grad and optimizer.step(closure=closure) < first
    loss = (a[0] ** 2).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    state = optimizer.state[a[0]]
    before = {key: value._version for key, value in state.items()}
    optimizer.step()
    assert all(state[key]._version > version for key, version in before.items())
