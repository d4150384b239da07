"""Whatever is put into .data between two steps, no byte beyond a tensor is written: torch's result or one error."""

import pytest
import torch
import twins

import altgrad


def trained(name="AdamW", shape=(4, 4), **kwargs):
    """Twins after two steps, ours and torch's; each parameter is a view into room to grow."""
    room = torch.randn(3, 64)
    params = [[torch.nn.Parameter(r[:torch.Size(shape).numel()].view(shape)) for r in room.clone()]
              for _ in "ab"]
    optimizers = [getattr(library.optim, name)(ps, lr=0.1, **kwargs)
                  for library, ps in zip((altgrad, torch), params)]
    twins.step(optimizers, params, 2)
    return optimizers, params


def refused_before_anything_changes(optimizer, params, match):
    before = [p.detach().clone() for p in params]
    with pytest.raises((ValueError, RuntimeError, TypeError), match=match):
        optimizer.step()
    assert all(map(torch.equal, before, params))


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("shape", [(2, 4), (8, 8), (16,), (2, 8)])
def test_parameter_of_another_shape_at_its_address(shape, place):
    (ours, _), (a, _) = trained()
    address = a[place].data_ptr()
    a[place].data = a[place].data.as_strided(shape, torch.empty(shape).stride())
    assert a[place].data_ptr() == address
    twins.give_grads(a)
    refused_before_anything_changes(ours, a, r"state 'exp_avg' of shape \(4, 4\)")


@pytest.mark.parametrize("place", [0, 1, 2])
def test_parameter_transposed_at_its_address(place):
    optimizers, params = trained()
    for ps, optimizer in zip(params, optimizers):
        ps[place].data = ps[place].data.t()
    twins.step(optimizers, params, 2)
    for p, q in zip(*params):
        torch.testing.assert_close(p, q)


def test_parameter_of_another_dtype_at_its_address():
    """torch's own class goes on with such a parameter; its states keep their dtype here."""
    (ours, _), (a, _) = trained()
    wide = a[1].detach().clone()
    a[1].data.view(torch.bfloat16).view(-1)[:16].copy_(wide.view(-1).to(torch.bfloat16))
    a[1].data = a[1].data.view(torch.bfloat16).view(-1)[:16].view(4, 4)
    twins.give_grads(a)
    guard = a[1].data.view(-1).as_strided((16,), (1,), a[1].storage_offset() + 16).clone()
    ours.step()
    after = a[1].data.view(-1).as_strided((16,), (1,), a[1].storage_offset() + 16)
    assert torch.equal(guard.view(torch.int16), after.view(torch.int16))
    assert ours.state[a[1]]["exp_avg"].dtype == torch.float32


@pytest.mark.parametrize("key", ["exp_avg", "exp_avg_sq", "step"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_state_moved_in_any_row(place, key):
    optimizers, params = trained()
    for optimizer, ps in zip(optimizers, params):
        state = optimizer.state[ps[place]][key]
        stale, state.data = state.data, state.data.clone()
        state.data.fill_(3.0)
        kept = stale.clone()
        twins.give_grads(ps)
    twins.give_grads(*params)
    for optimizer in optimizers:
        optimizer.step()
    for p, q in zip(*params):
        torch.testing.assert_close(p, q)
    torch.testing.assert_close(optimizers[0].state[params[0][place]][key],
                               optimizers[1].state[params[1][place]][key])
    assert torch.equal(stale, kept)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_state_transposed_at_its_address(place):
    optimizers, params = trained()
    for optimizer, ps in zip(optimizers, params):
        optimizer.state[ps[place]]["exp_avg"].t_()
    twins.step(optimizers, params, 2)
    for p, q in zip(*params):
        torch.testing.assert_close(p, q)


def test_state_of_fewer_elements_at_its_address():
    (ours, _), (a, _) = trained()
    ours.state[a[2]]["exp_avg"].data = ours.state[a[2]]["exp_avg"].data[:2]
    twins.give_grads(a)
    refused_before_anything_changes(ours, a, r"state 'exp_avg' of shape \(2, 4\)")


def test_states_in_shared_memory():
    optimizers, params = trained("Adagrad")
    for optimizer in optimizers:
        optimizer.share_memory()
    twins.step(optimizers, params, 2)
    for p, q in zip(*params):
        torch.testing.assert_close(p, q)
    assert all(v.is_shared() for held in optimizers[0].state.values() for v in held.values())


def test_a_state_that_was_transposed_in_place():
    a, b = twins.make([(3, 3)])
    ours, theirs = altgrad.optim.AdamW(a), torch.optim.AdamW(b)
    for turn in range(3):
        twins.give_grads(a, b)
        if turn:
            ours.state[a[0]]["exp_avg"].t_()
            theirs.state[b[0]]["exp_avg"].t_()
        ours.step()
        theirs.step()
    torch.testing.assert_close(a[0], b[0])


def test_in_another_order_while_another_parameter_gets_its_first_gradient():
    ours, theirs = ([torch.nn.Parameter(torch.arange(12.0).reshape(3, 4)) for _ in range(2)] for _ in range(2))
    mine, other = altgrad.optim.AdamW(ours, lr=0.1), torch.optim.AdamW(theirs, lr=0.1)
    for step in range(3):
        for params, optimizer in ((ours, mine), (theirs, other)):
            if step == 1:
                params[0].data = params[0].detach().t().contiguous().t()
            for param in params[:step + 1]:
                param.grad = torch.linspace(-1, 1, 12).reshape(3, 4)
            optimizer.step()
    for param, expected in zip(ours, theirs):
        torch.testing.assert_close(param, expected)
