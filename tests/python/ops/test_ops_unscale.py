"""fused_grad_unscale_clip: one product, a verdict, and data that stay as they are where it is bad."""

import math

import lists
import pytest
import torch

import altgrad


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("kind", lists.KINDS)
@pytest.mark.parametrize("dtype", lists.DTYPES)
def test_unscales_and_clips_by_one_product(dtype, kind, inplace):
    grads, scale = lists.grads(dtype, scale=64.0), 24.0
    kept = [g.clone() for g in grads]
    inverse = torch.tensor(1 / scale)
    unscaled = [g.float() * inverse for g in grads]
    bound = 0.5 * lists.norm(unscaled, kind)
    clipped, norm, found = altgrad.fused_grad_unscale_clip(
        grads, bound, scale, norm_type=kind, inplace=inplace)
    assert float(norm) == pytest.approx(lists.norm(unscaled, kind), rel=1e-6) and found == 0.0
    coefficient = torch.clamp(torch.tensor(bound) / (norm + 1e-6), max=1.0)
    assert lists.same(clipped, [(g.float() * (inverse * coefficient)).to(dtype) for g in kept])
    assert all(a is b for a, b in zip(clipped, grads)) == inplace
    assert lists.same(grads, clipped if inplace else kept)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("per_tensor", [False, True])
def test_what_is_not_finite_is_found_and_nothing_clipped(bad, per_tensor):
    grads = [torch.full((5,), 8.0), torch.tensor([4.0, bad])]
    clipped, norm, found = altgrad.fused_grad_unscale_clip(grads, 0.1, 4.0, per_tensor=per_tensor)
    assert found == 1.0 and not norm.isfinite().all()
    assert clipped[0].tolist() == [2.0] * 5 and clipped[1][0] == 1.0
    assert not clipped[1][1].isfinite()


def test_a_sum_that_overflows_is_no_bad_gradient():
    clipped, norm, found = altgrad.fused_grad_unscale_clip(torch.full((9,), 3e38), 1.0, 1.0)
    assert norm == math.inf and found == 0.0 and not clipped.any()


def test_one_tensor_none_nothing_and_a_scale_in_a_tensor():
    g = torch.tensor([3.0, 4.0]) * 8
    clipped, norm, found = altgrad.fused_grad_unscale_clip(g, None, torch.tensor(8.0))
    assert clipped.tolist() == [3.0, 4.0] and (norm, found) == (5.0, 0.0)
    (none, one), _, _ = altgrad.fused_grad_unscale_clip([None, g], 0, 8.0)
    assert none is None and one.tolist() == [3.0, 4.0]
    assert altgrad.fused_grad_unscale_clip([], 1.0, 8.0)[:1] == ([],)
    torch.testing.assert_close(altgrad.fused_grad_unscale_clip(
        g.double(), 1.0, 8.0)[0], torch.tensor([0.6, 0.8], dtype=torch.float64), rtol=1e-5, atol=0)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_none(scale):
    with pytest.raises(ValueError, match="loss_scale is .*; it has to be positive and finite"):
        altgrad.fused_grad_unscale_clip([torch.ones(3)], 1.0, scale)
    with pytest.raises(ValueError, match="max_norm is -1.0"):
        altgrad.fused_grad_unscale_clip([torch.ones(3)], -1.0, 2.0)
