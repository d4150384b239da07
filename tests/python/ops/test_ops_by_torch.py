"""What no kernel takes goes to torch's own functions: the same results, in one call with all others."""

import pytest
import torch
from test_ops_layouts import holders

import altgrad

LISTS = {
    "f64": lambda: [torch.randn(5, dtype=torch.float64), torch.randn(7)],
    "complex": lambda: [torch.randn(5, dtype=torch.complex64)],
    "f64 and bf16": lambda: [torch.randn(5, dtype=torch.float64), torch.randn(3).bfloat16()],
    "subclass": lambda: [torch.randn(5).as_subclass(type("Mine", (torch.Tensor,), {}))],
}


@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS)
def test_as_torch_does(make):
    grads = make()
    ours, theirs = ([g.clone() for g in grads] for _ in "ab")
    norm = altgrad.clip_grad_norm_(holders(ours), 0.5)
    expected = torch.nn.utils.clip_grad_norm_(holders(theirs), 0.5)
    torch.testing.assert_close(norm, expected, check_dtype=False)
    torch.testing.assert_close(ours, theirs)
    clipped, norm, found = altgrad.fused_grad_unscale_clip(theirs, 0.25, 2.0)
    torch.testing.assert_close(norm, expected.clamp(max=0.5) / 2, check_dtype=False,
                               rtol=1e-3, atol=0)  # of a bf16 tensor torch's norm is bf16
    assert found == 0.0 and all(a.dtype == b.dtype for a, b in zip(clipped, grads))


def test_sparse_gradients():
    sparse = torch.sparse_coo_tensor([[0, 2]], torch.tensor([3.0, 4.0]), (5,))
    assert altgrad.compute_global_grad_norm([sparse]) == 5.0
    param = torch.nn.Parameter(torch.zeros(5))
    param.grad = sparse.clone()
    assert altgrad.clip_grad_norm_(param, 2.5) == 5.0
    torch.testing.assert_close(param.grad.to_dense()[2], torch.tensor(2.0))
    clipped, _, found = altgrad.fused_grad_unscale_clip([sparse], None, 2.0)
    assert clipped[0].to_dense()[0] == 1.5 and found == 0.0


@pytest.mark.parametrize("left", [0, 40])
def test_a_storage_that_was_shrunk_is_refused(left):
    grad = torch.randn(100)
    grad.untyped_storage().resize_(left)
    with pytest.raises(RuntimeError, match=f"ends at byte 400 of a storage of {left} bytes"):
        altgrad.clip_grad_norm_(holders([grad, torch.randn(3)]), 1.0)


def test_a_storage_that_was_shrunk_is_refused_beside_what_lies_in_its_place():
    for _ in range(20):
        grad = torch.randn(100)
        grad.untyped_storage().resize_(40)
        begin = grad.data_ptr()
        beside = [other for other in [torch.randn(3) for _ in range(200)] if begin < other.data_ptr() < begin + 400]
        with pytest.raises(RuntimeError, match="ends at byte 400 of a storage of 40 bytes"):
            altgrad.clip_grad_norm_(holders([grad, *beside]), 1.0)


def test_zeros_without_memory_are_torchs():
    zeros = torch._efficientzerotensor((5,))
    assert altgrad.compute_global_grad_norm([zeros, torch.tensor([3.0, 4.0])]) == 5.0


def test_functorchs_wrappers_have_no_memory_to_look_at():
    rows = torch.arange(6.0).reshape(2, 3) + 1
    norms = torch.func.vmap(lambda row: altgrad.compute_global_grad_norm([row, rows[0]]))(rows)
    torch.testing.assert_close(norms, torch.stack([torch.stack([row, rows[0]]).norm() for row in rows]))
    clipped, norms, found = torch.func.vmap(lambda row: altgrad.fused_grad_unscale_clip(row, 1.0, 2.0))(rows)
    torch.testing.assert_close(clipped, rows / rows.norm(dim=1, keepdim=True))
    assert torch.equal(norms, rows.norm(dim=1) / 2) and not found.any()
    slope = torch.func.grad(lambda row: altgrad.compute_global_grad_norm([row * 2]))(rows[0])
    assert not slope.any()  # as torch's get_total_norm: it is not differentiated
