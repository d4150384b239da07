"""max_grad_norm= against clip_grad_norm_ and a step."""

import pytest
import torch
import twins

import altgrad


@pytest.mark.parametrize("max_norm", [0.5, 1e6])
@pytest.mark.parametrize("name", ["AdamW", "SGD", "RMSprop"])
def test_clip_and_step(name, max_norm):
    a, b = twins.make()
    ours = getattr(altgrad.optim, name)(a, lr=0.1, max_grad_norm=max_norm)
    theirs = getattr(torch.optim, name)(b, lr=0.1)
    assert ours.grad_norm is None
    for _ in range(5):
        twins.give_grads(a, b)
        kept = [p.grad.clone() for p in a]
        norm = torch.nn.utils.clip_grad_norm_(b, max_norm)
        ours.step()
        theirs.step()
        torch.testing.assert_close(ours.grad_norm, norm)
        assert all(torch.equal(p.grad, g) for p, g in zip(a, kept))
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_one_norm_over_several_tables(name):
    """Two dtypes and two sets of options are four kernels, and still one norm."""
    a, b = twins.make([(8,), (5, 3), (4097,), (7,)])
    for p in (*a[:1], *a[3:]):
        p.data = p.data.to(torch.bfloat16)
    for p, q in zip(a, b):
        q.data = p.data.float()
    groups = lambda ps: [dict(params=ps[:2]), dict(params=ps[2:], maximize=True)]
    ours = getattr(altgrad.optim, name)(groups(a), lr=0.1, max_grad_norm=0.5)
    theirs = getattr(torch.optim, name)(groups(b), lr=0.1)
    for _ in range(3):
        twins.give_grads(a, b)
        norm = torch.nn.utils.clip_grad_norm_(b, 0.5)
        ours.step()
        theirs.step()
        torch.testing.assert_close(ours.grad_norm, norm)
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q.to(p.dtype))


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_norms_that_are_not_finite(bad, mixed):
    """As torch: an infinite norm zeroes what is finite, NaN goes everywhere."""
    a, b = twins.make([(8,), (5,)])
    groups = lambda ps: [dict(params=ps[:1]), dict(params=ps[1:], maximize=mixed)]
    ours = altgrad.optim.SGD(groups(a), lr=0.1, max_grad_norm=1.0)
    theirs = torch.optim.SGD(groups(b), lr=0.1)
    twins.give_grads(a, b)
    a[0].grad[3] = b[0].grad[3] = bad
    norm = torch.nn.utils.clip_grad_norm_(b, 1.0)
    ours.step()
    theirs.step()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q, equal_nan=True)
    torch.testing.assert_close(ours.grad_norm, norm, equal_nan=True)


def test_lamb_reduces_after_the_clip():
    """Its own reductions come after the global norm, with one table or two."""
    a, b = twins.make([(8,), (5, 3)])
    together = altgrad.optim.LAMB(a, max_grad_norm=0.1)
    apart = altgrad.optim.LAMB([dict(params=b[:1]), dict(params=b[1:], use_nvlamb=True)],
                               max_grad_norm=0.1)
    for _ in range(4):
        twins.give_grads(a, b)
        together.step()
        apart.step()
    torch.testing.assert_close(together.grad_norm, apart.grad_norm)
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)


def test_bound_changes_between_steps_and_no_gradients():
    params, = twins.make([(8,)], count=1)
    optimizer = altgrad.optim.SGD(params, lr=1.0, max_grad_norm=1.0)
    optimizer.step()
    assert optimizer.grad_norm == 0.0
    before = params[0].detach().clone()
    params[0].grad = torch.full((8,), 2.0)
    optimizer.max_grad_norm = 0.5
    optimizer.step()
    torch.testing.assert_close((params[0] - before).norm(), torch.tensor(0.5))
    with pytest.raises(ValueError, match="Invalid max_grad_norm value: -1"):
        altgrad.optim.SGD(params, max_grad_norm=-1)


@pytest.mark.parametrize("bound", [None, "x", [1.0], -1.0, float("nan"), 10 ** 400, 1j, torch.ones(2)])
def test_a_bound_in_a_group_that_is_none(bound):
    params, = twins.make([(4,), (3,)], count=1)
    optimizer = altgrad.optim.AdamW(params, max_grad_norm=1.0)
    twins.give_grads(params)
    optimizer.step()
    optimizer.param_groups[0]["max_grad_norm"] = bound
    before = [p.detach().clone() for p in params]
    with pytest.raises(ValueError, match="^Invalid max_grad_norm value: "):
        optimizer.step()
    assert all(map(torch.equal, before, params))


def test_equal_bounds_of_two_groups_and_none_any_more():
    lists = twins.make([(4,), (3,)])
    optimizer = altgrad.optim.AdamW([dict(params=[p]) for p in lists[0]], max_grad_norm=torch.tensor(0.5))
    optimizer.param_groups[1]["max_grad_norm"] = torch.tensor(0.5)
    twins.give_grads(*lists)
    optimizer.step()
    torch.testing.assert_close(optimizer.grad_norm, torch.nn.utils.clip_grad_norm_(lists[1], 0.5))
    for group in optimizer.param_groups:
        del group["max_grad_norm"]
    optimizer.step()
    assert optimizer.grad_norm is None


def test_a_norm_near_the_summand_of_its_bound():
    """torch divides by the norm and 1e-6: half of the bound, where the norm is 1e-6 itself."""
    a, b = twins.make([(4,)])
    for p in (a[0], b[0]):
        p.grad = torch.full((4,), 0.5e-6)
    ours, theirs = altgrad.optim.SGD(a, lr=1e6, max_grad_norm=1e-6), torch.optim.SGD(b, lr=1e6)
    torch.nn.utils.clip_grad_norm_(b, 1e-6)
    ours.step()
    theirs.step()
    torch.testing.assert_close(a[0], b[0], rtol=1e-6, atol=0)
