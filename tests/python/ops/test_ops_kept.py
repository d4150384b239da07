"""A list of the same kind is not bound anew; other addresses are; autograd is told of what is written."""

import lists
import pytest
import torch

import altgrad
from altgrad.ops import _plan_cache


@pytest.fixture
def made(monkeypatch):
    """The programs that were bound since the test began."""
    _plan_cache._cache.bound.clear()
    counted, init = [], _plan_cache.BoundPlan.__init__
    monkeypatch.setattr(_plan_cache.BoundPlan, "__init__", lambda self, *a: counted.append(a) or init(self, *a))
    return counted


def test_one_program_for_lists_of_one_kind(made):
    for _ in range(3):
        grads = lists.grads()
        params = lists.params(grads)
        norm = altgrad.clip_grad_norm_(params, 0.5)
        assert float(norm) == pytest.approx(lists.norm(grads), rel=1e-6)
        assert lists.norm([p.grad for p in params]) == pytest.approx(0.5, rel=1e-4)
    assert len(made) == 1
    altgrad.clip_grad_norm_(lists.params(grads[1:]), 0.5)
    assert len(made) == 2


def test_few_are_kept(made):
    for size in range(1, _plan_cache._MOST + 8):
        altgrad.compute_global_grad_norm(torch.ones(size))
    assert len(made) == _plan_cache._MOST + 7 and len(_plan_cache._cache.bound) <= _plan_cache._MOST


def test_autograd_is_told():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    altgrad.clip_grad_value_([type("Holder", (), {"grad": y.detach()})()], 0.5)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_results_are_the_callers():
    one = altgrad.compute_global_grad_norm(torch.tensor([3.0, 4.0]))
    two = altgrad.compute_global_grad_norm(torch.tensor([6.0, 8.0]))
    assert (one, two) == (5.0, 10.0)
