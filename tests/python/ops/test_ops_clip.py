"""clip_grad_norm_ against f64 and torch's own; bounds that are none; errors before anything changes."""

import inspect
import math

import lists
import pytest
import torch

import altgrad


@pytest.mark.parametrize("kind", lists.KINDS)
@pytest.mark.parametrize("dtype", lists.DTYPES)
def test_clips_to_the_bound_once_rounded(dtype, kind):
    grads = lists.grads(dtype)
    params = lists.params(grads)
    bound = 0.25 * lists.norm(grads, kind)
    norm, coefficient = altgrad.clip_grad_norm_(params, bound, kind, return_coefficient=True)
    assert float(norm) == pytest.approx(lists.norm(grads, kind), rel=1e-6)
    assert float(coefficient) == pytest.approx(0.25, rel=1e-4)
    # The coefficient is the kernels' number: one product in f32, rounded to the dtype.
    wanted = [(g.float() * coefficient).to(dtype) for g in grads]
    assert lists.same([p.grad for p in params], wanted)


@pytest.mark.parametrize("dtype", lists.DTYPES)
def test_each_tensor_by_its_own_norm(dtype):
    grads = lists.grads(dtype)
    params = lists.params(grads)
    norms, factors = altgrad.clip_grad_norm_(params, 0.5, per_tensor=True, return_coefficient=True)
    assert norms.tolist() == pytest.approx([lists.norm([g]) for g in grads], rel=1e-6)
    wanted = [(g.float() * f).to(dtype) for g, f in zip(grads, factors)]
    assert lists.same([p.grad for p in params], wanted)


def test_within_the_bound_no_byte_changes():
    params = lists.params([torch.tensor([3.0, -4.0, -0.0])])
    before = lists.bits([params[0].grad])
    for bound in (6.0, math.inf, 1e300):
        norm, factor = altgrad.clip_grad_norm_(params, bound, return_coefficient=True)
        assert (norm, factor) == (5.0, 1.0) and lists.same([params[0].grad], [g.view(torch.float32) for g in before])


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_goes_as_in_torch(bad):
    ours, theirs = (lists.params([torch.tensor([1.0, bad, -2.0]), torch.ones(5)]) for _ in "ab")
    norm = altgrad.clip_grad_norm_(ours, 1.0)
    expected = torch.nn.utils.clip_grad_norm_(theirs, 1.0)
    torch.testing.assert_close(norm, expected, equal_nan=True)
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p.grad, q.grad, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("per_tensor", [False, True])
@pytest.mark.parametrize("kind", [*lists.KINDS, 3.0])
def test_an_error_comes_before_any_change(kind, per_tensor):
    grads = [torch.ones(5), torch.tensor([1.0, math.inf])]
    params = lists.params(grads)
    with pytest.raises(RuntimeError, match="non-finite, so it cannot be clipped"):
        altgrad.clip_grad_norm_(params, 0.1, kind, error_if_nonfinite=True, per_tensor=per_tensor)
    assert lists.same([p.grad for p in params], grads)
    params[1].grad = None
    norm = altgrad.clip_grad_norm_(params, 0.1, kind, error_if_nonfinite=True, per_tensor=per_tensor)
    assert norm.isfinite().all() and params[0].grad[0] < 1


@pytest.mark.parametrize("kind", lists.KINDS)
def test_an_error_is_of_the_joined_norm(kind):
    """Two dtypes have a share each; only a sum of them may overflow."""
    grads = [torch.tensor([3e38]), torch.tensor([3e38]).bfloat16()]
    params = lists.params(grads)
    if kind == math.inf:
        assert altgrad.clip_grad_norm_(params, 1.0, kind, error_if_nonfinite=True) == grads[1]
    else:
        with pytest.raises(RuntimeError, match="non-finite, so it cannot be clipped"):
            altgrad.clip_grad_norm_(params, 1.0, kind, error_if_nonfinite=True)
        assert lists.same([p.grad for p in params], grads)


def test_a_bound_of_zero_and_none_that_are_none():
    params = lists.params(lists.grads())
    assert altgrad.clip_grad_norm_(params, 0.0) > 0
    assert not any(p.grad.any() for p in params)
    for bound in (-1.0, math.nan):
        with pytest.raises(ValueError, match="max_norm is .*; a bound has to be at least 0"):
            altgrad.clip_grad_norm_(params, bound)
        with pytest.raises(ValueError, match="clip_value is"):
            altgrad.clip_grad_value_(params, bound)


def test_the_signature_is_torchs_and_more():
    for name in ("clip_grad_norm_", "clip_grad_value_"):
        theirs = inspect.signature(getattr(torch.nn.utils, name)).parameters
        ours = inspect.signature(getattr(altgrad, name)).parameters
        assert [(p, of.default) for p, of in theirs.items()] == [
            (p, of.default) for p, of in list(ours.items())[:len(theirs)]]
    assert altgrad.clip_grad_norm_([], 1.0) == 0.0
    assert altgrad.clip_grad_norm_([torch.nn.Parameter(torch.ones(3))], 1.0) == 0.0
    lone = torch.nn.Parameter(torch.ones(3))
    lone.grad = torch.tensor([3.0, 0.0, 4.0])
    assert altgrad.clip_grad_norm_(lone, 1.0, foreach=False) == 5.0
