"""compute_global_grad_norm against NumPy in f64, and torch's function for what no kernel does."""

import lists
import pytest
import torch

import altgrad


@pytest.mark.parametrize("kind", lists.KINDS)
@pytest.mark.parametrize("dtype", lists.DTYPES)
def test_norms_of_each_kind_and_dtype(dtype, kind):
    grads = lists.grads(dtype)
    norm = altgrad.compute_global_grad_norm(grads, kind)
    assert norm.dtype == torch.float32 and norm.shape == ()
    assert float(norm) == pytest.approx(lists.norm(grads, kind), rel=1e-6)
    each = altgrad.compute_global_grad_norm(grads, kind, per_tensor=True)
    assert each.tolist() == pytest.approx([lists.norm([g], kind) for g in grads], rel=1e-6)


@pytest.mark.parametrize("kind", lists.KINDS)
def test_mixed_dtypes_have_one_norm_and_each_its_own(kind):
    grads = [g for dtype in lists.DTYPES for g in lists.grads(dtype)]
    grads = grads[::2] + grads[1::2]
    assert float(altgrad.compute_global_grad_norm(grads, kind)) == pytest.approx(
        lists.norm(grads, kind), rel=1e-6)
    each = altgrad.compute_global_grad_norm(grads, kind, per_tensor=True)
    assert each.tolist() == pytest.approx([lists.norm([g], kind) for g in grads], rel=1e-6)


def test_none_a_single_tensor_and_nothing():
    g = torch.tensor([3.0, -4.0])
    assert altgrad.compute_global_grad_norm(g) == 5.0
    assert altgrad.compute_global_grad_norm([None, g, None]) == 5.0
    assert altgrad.compute_global_grad_norm(x for x in [g]) == 5.0
    assert altgrad.compute_global_grad_norm([]) == 0.0
    assert altgrad.compute_global_grad_norm([], per_tensor=True).shape == (0,)
    assert altgrad.compute_global_grad_norm([torch.empty(0)], float("inf")) == 0.0


@pytest.mark.parametrize("kind", [0.0, 0.5, 3.0, -float("inf")])
def test_other_kinds_are_torchs(kind):
    grads = lists.grads(sizes=[(7, 3), (5,)])
    expected = torch.nn.utils.get_total_norm(grads, kind)
    assert altgrad.compute_global_grad_norm(grads, kind) == expected


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_is_told_or_raised(bad):
    grads = [torch.ones(5), torch.tensor([1.0, bad])]
    assert not altgrad.compute_global_grad_norm(grads).isfinite()
    with pytest.raises(RuntimeError, match="total norm of order 2.0 .* non-finite"):
        altgrad.compute_global_grad_norm(grads, error_if_nonfinite=True)
