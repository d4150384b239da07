"""Gradients that are not what they were a step ago, or have no memory of their own."""

import pytest
import torch
import twins

import altgrad


def with_grad_dtype(param, dtype):
    param.grad = None
    param.grad_dtype = dtype
    param.grad = torch.randn(param.shape).to(dtype)


def test_a_gradient_in_the_middle_changes_dtype_at_equal_width():
    a, b = twins.make([(8,), (5,), (7,)], dtype=torch.bfloat16)
    ours, theirs = altgrad.optim.SGD(a, lr=0.5), altgrad.optim.SGD(b, lr=0.5)
    twins.give_grads(a, b)
    ours.step()
    theirs.step()
    with_grad_dtype(a[1], torch.float16)
    b[1].grad = a[1].grad.to(torch.bfloat16)
    ours.step()
    theirs.step()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q, rtol=2e-2, atol=2e-2)


def test_a_gradient_that_changes_shape_only():
    params, = twins.make([(4, 6), (4, 6)], count=1)
    optimizer = altgrad.optim.SGD(params)
    twins.give_grads(params)
    optimizer.step()
    before = params[1].detach().clone()
    params[1].grad.data = torch.ones(6, 4)
    with pytest.raises(RuntimeError, match=r"gradient of shape \(6, 4\)"):
        optimizer.step()
    assert torch.equal(params[1], before)


@pytest.mark.parametrize("first", [True, False])
def test_a_zero_tensor_counts_as_zeros(first):
    """autograd may hand out zeros without memory."""
    a, b = twins.make([(8,), (5,)])
    ours, theirs = altgrad.optim.AdamW(a, lr=0.1), torch.optim.AdamW(b, lr=0.1)
    for step in range(2):
        twins.give_grads(a, b)
        if first or step:
            a[1].grad, b[1].grad = torch._efficientzerotensor(5), torch.zeros(5)
        ours.step()
        theirs.step()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)


@pytest.mark.parametrize("shape", [(8,), (1,)])
def test_a_contiguous_negative_view(shape):
    a, b = twins.make([shape])
    ours, theirs = altgrad.optim.SGD(a, lr=0.5), torch.optim.SGD(b, lr=0.5)
    for _ in range(2):
        twins.give_grads(b)
        a[0].grad = torch._neg_view(-b[0].grad)
        ours.step()
        theirs.step()
    torch.testing.assert_close(a[0], b[0])


@pytest.mark.parametrize("first", [True, False])
def test_a_wrapper_without_memory_is_refused(first):
    from torch.testing._internal.two_tensor import TwoTensor
    params, = twins.make([(3,), (3,)], count=1)
    optimizer = altgrad.optim.AdamW(params)
    twins.give_grads(params)
    if not first:
        optimizer.step()
    before = [p.detach().clone() for p in params]
    params[1].grad = TwoTensor(torch.ones(3), torch.ones(3))
    with pytest.raises(TypeError, match="AdamW does not support TwoTensor gradients"):
        optimizer.step()
    assert all(map(torch.equal, before, params))
