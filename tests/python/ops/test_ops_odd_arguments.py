"""Arguments that are iterators, tensors without memory or no numbers; blocks as an operator."""

import pytest
import torch

import altgrad


def blocks(x, fmt):
    return [part.view(torch.uint8) for part in altgrad.quant.quantize_blocks(x, fmt)]


def test_gradients_from_a_generator_come_back():
    given = [torch.ones(3), torch.full((2,), 2.0)]
    for inplace in (False, True):
        clipped, norm, found = altgrad.fused_grad_unscale_clip(iter([g.clone() for g in given]), None, 2.0, inplace=inplace)
        assert [c.tolist() for c in clipped] == [[0.5] * 3, [1.0] * 2] and found == 0.0
        assert norm.item() == pytest.approx((3 * 0.25 + 2) ** 0.5)


@pytest.mark.parametrize("scale, error", [("x", TypeError), (None, TypeError), (torch.ones(2), ValueError),
                                          (torch.tensor(1j), ValueError), (0.0, ValueError)])
def test_a_loss_scale_that_is_no_number(scale, error):
    with pytest.raises(error, match="loss_scale is "):
        altgrad.fused_grad_unscale_clip([torch.ones(3)], 1.0, scale)


def test_zeros_without_memory_are_quantised():
    zeros = torch._efficientzerotensor((64,))
    assert torch.equal(altgrad.quantize(zeros, "ocp.e4m3fn"), torch.zeros(64))
    assert all(map(torch.equal, blocks(zeros, "mxfp8"), blocks(torch.zeros(64), "mxfp8")))


@pytest.mark.parametrize("fmt", ["mxfp8", "mxfp4", "ocp.e4m3fn:32"])
def test_blocks_under_compile_and_as_an_operator(fmt):
    x = torch.randn(4, 64)
    compiled = torch.compile(lambda v: altgrad.quant.quantize_blocks(v, fmt), fullgraph=True, backend="aot_eager")
    assert all(map(torch.equal, [part.view(torch.uint8) for part in compiled(x)], blocks(x, fmt)))
    for given in (x, torch.randn(33), torch.randn(64, 4).t()):
        torch.library.opcheck(torch.ops.altgrad.quantize_blocks, (given, fmt))


@pytest.mark.parametrize("shape", [(3, 4, 64), (3, 64), (3, 33), (3, 1), (3,), (3, 0), (3, 2, 5, 32)])
@pytest.mark.parametrize("fmt", ["mxfp8", "mxfp4", "ocp.e4m3fn:32", "ocp.e4m3fn:128x128", "mxfp8:32x32"])
def test_blocks_of_each_of_a_batch(fmt, shape):
    x = torch.randn(shape)
    wanted = [torch.stack(parts) for parts in zip(*(blocks(one, fmt) for one in x))]
    made = [part.view(torch.uint8) for part in torch.vmap(lambda v: altgrad.quant.quantize_blocks(v, fmt))(x)]
    assert all(map(torch.equal, made, wanted))
