"""Tensors that are not one run of elements, that overlap, or that are there twice: as torch clips them."""

import pytest
import torch

import altgrad


def transposed(): return torch.randn(40, 30).t()
def channels(): return torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
def columns(): return torch.randn(50, 8)[:, 2:5]
def strided(): return torch.randn(100)[::3]
def negative(): return torch.randn(20, dtype=torch.complex64).conj().imag
def empty(): return torch.empty(0, 4)


MAKERS = [transposed, channels, columns, strided, negative, empty]


@pytest.mark.parametrize("make", MAKERS)
def test_in_place_as_torch(make):
    made, apart = make(), torch.randn(33)
    ours, theirs = [[made.clone(memory_format=torch.preserve_format), apart.clone()] for _ in "ab"]
    ours[0] = torch.empty_strided(made.shape, made.stride()).copy_(made) if make in (columns, strided) else ours[0]
    if make is negative:
        ours[0] = (made.resolve_neg().neg() * 1j).conj().imag
        assert ours[0].is_neg()
        ours[0].copy_(made)
    for kind in (2.0, 1.0):
        norm = altgrad.clip_grad_norm_(holders(ours), 1.0, kind)
        torch.testing.assert_close(norm, torch.nn.utils.clip_grad_norm_(holders(theirs), 1.0, kind))
        torch.testing.assert_close(ours, theirs)
    for one, other in zip(ours, theirs):
        other.copy_(one)
    altgrad.clip_grad_value_(holders(ours), 0.01)
    torch.nn.utils.clip_grad_value_(holders(theirs), 0.01)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


class Holder:
    """What has a gradient and is no parameter: clip_grad_norm_ looks at nothing else."""

    def __init__(self, grad):
        self.grad = grad


def holders(grads):
    return [Holder(grad) for grad in grads]


@pytest.mark.parametrize("make", MAKERS)
def test_copies_lie_as_empty_like_has_them(make):
    made = make()
    before = made.clone()
    clipped, _, _ = altgrad.fused_grad_unscale_clip([made, torch.randn(9)], None, 2.0)
    assert clipped[0].stride() == torch.empty_like(made).stride() and torch.equal(made, before)
    assert torch.equal(clipped[0], before / 2)


def test_twice_there_or_overlapping_as_torch():
    for cut in (lambda s: [s[:8], s[4:12]], lambda s: [s[:8], s[:8]]):
        one, other = torch.randn(12), torch.empty(12)
        other.copy_(one)
        altgrad.clip_grad_norm_(holders(cut(one)), 0.5)
        torch.nn.utils.clip_grad_norm_(holders(cut(other)), 0.5)
        torch.testing.assert_close(one, other)


def test_what_torch_does_not_write_we_do_not():
    expanded = torch.randn(3, 1).expand(3, 4)
    with pytest.raises(RuntimeError, match="more than one element|single memory location"):
        altgrad.clip_grad_norm_(holders([expanded]), 0.1)
    with torch.inference_mode():
        inference = torch.ones(3)
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        altgrad.clip_grad_norm_(holders([inference]), 0.1)
    assert inference.tolist() == [1.0] * 3


@pytest.mark.parametrize("gaps", [False, True])
def test_a_gradient_that_is_there_twice_is_scaled_twice_as_by_torch(gaps):
    lists = []
    for _ in range(2):
        torch.manual_seed(0)
        grad = torch.randn(8, 8)[:, ::2] if gaps else torch.randn(8, 4)
        params = [torch.nn.Parameter(torch.zeros(8, 4)) for _ in range(3)]
        for param in params[:2]:
            param.grad = grad
        params[2].grad = torch.randn(8, 4)
        lists.append(params)
    altgrad.ops.clip_grad_norm_(lists[0], 1.0)
    torch.nn.utils.clip_grad_norm_(lists[1], 1.0, foreach=False)
    for p, q in zip(*lists):
        torch.testing.assert_close(p.grad, q.grad)
