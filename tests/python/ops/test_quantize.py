"""altgrad.quantize: against a search for the nearest number, straight-through gradients, torch's transforms."""

import math
import os

import numpy as np
import pytest
import torch

import altgrad
from nearest import FORMATS, nearest, numbers


def awkward(dtype):
    torch.manual_seed(1)
    x = torch.randn(20000) * torch.exp2(torch.randint(-20, 20, (20000,)).float())
    special = [0.0, -0.0, math.inf, -math.inf, math.nan, 448.0, 464.0, 1e38, 2**-10, 3 * 2**-10, 1e-45]
    return torch.cat([x, torch.tensor(special), numbers_between()]).to(dtype)


def numbers_between():
    """Middles of neighbouring numbers: ties."""
    return torch.cat([torch.tensor((v[1:] + v[:-1]) / 2, dtype=torch.float32)
                      for v in (numbers(fmt)[0] for fmt in FORMATS)])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("scale", [1.0, 0.37, 1e-3])
@pytest.mark.parametrize("fmt", FORMATS)
def test_the_nearest_number_times_scale(fmt, scale, dtype):
    x = awkward(dtype)
    scale = torch.tensor(scale)
    got, wanted = altgrad.quantize(x, fmt, scale.item()), nearest(x, fmt, scale)
    assert got.dtype == dtype and torch.equal(got.isnan(), wanted.isnan())
    kept = ~wanted.isnan()
    assert torch.equal(got[kept], wanted[kept])
    assert torch.equal(torch.signbit(got[kept]), torch.signbit(wanted[kept]))
    assert torch.equal(got[kept], altgrad.quantize(x, fmt, scale)[kept])


@pytest.mark.parametrize("fmt", FORMATS)
def test_codes_are_those_of_the_values(fmt):
    x = awkward(torch.float32)
    codes = altgrad.quant.quantize_codes(x, fmt, 0.25)
    assert codes.dtype == FORMATS[fmt] and codes.shape == x.shape
    values, back = altgrad.quantize(x, fmt, 0.25), altgrad.dequantize(codes, 0.25)
    assert torch.equal(values.nan_to_num(7), back.nan_to_num(7))


@pytest.mark.parametrize("make", [
    lambda: torch.randn(6, 8).t(), lambda: torch.randn(4, 9)[:, ::2], lambda: torch.randn(3).expand(5, 3),
    lambda: torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), lambda: torch.zeros(0, 3),
    lambda: torch.randn(()), lambda: torch._neg_view(torch.randn(7))])
def test_any_layout(make):
    x = make()
    got = altgrad.quantize(x, "ocp.e4m3fn", 0.5)
    assert torch.equal(got, nearest(x.contiguous().clone().flatten(), "ocp.e4m3fn",
                                    torch.tensor(0.5)).view(x.shape))
    assert torch.equal(altgrad.dequantize(altgrad.quant.quantize_codes(x, "ocp.e4m3fn", 0.5), 0.5), got)


def test_a_scale_for_each_row():
    x = torch.randn(5, 300)
    scales = torch.tensor([0.1, 1.0, 2.0, 0.3, 7.0]).view(5, 1)
    got = altgrad.quantize(x, "ocp.e4m3fn", scales)
    for row, scale in enumerate(scales.flatten()):
        assert torch.equal(got[row], nearest(x[row], "ocp.e4m3fn", scale))


def test_the_gradient_passes_straight_through():
    x = torch.tensor([0.3, -1000.0, 448.0, math.nan, 3.0], requires_grad=True)
    weights = torch.arange(5.0)
    (altgrad.quantize(x, "ocp.e4m3fn", 2.0) * weights).nansum().backward()
    assert torch.equal(x.grad, torch.tensor([0.0, 1, 2, 0, 4]))
    y = x.detach().requires_grad_()
    (altgrad.quantize(y, "ocp.e4m3fn", 1.0, mask_saturated=True) * weights).nansum().backward()
    assert torch.equal(y.grad, torch.tensor([0.0, 0, 2, 0, 4]))
    z = torch.tensor([2.0, 3.0], requires_grad=True)
    scale = torch.tensor(4.0, requires_grad=True)
    altgrad.dequantize(z, scale).sum().backward()
    assert torch.equal(z.grad, torch.tensor([4.0, 4.0])) and scale.grad is None


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [torch.tensor(0.5), torch.full((3, 1), 0.5)])
def test_the_way_without_the_operator_has_its_gradient(scale, masked):
    """Of one gradient, of a batch of them, and of the gradient."""
    x = (200 * torch.randn(3, 40)).requires_grad_()
    weights = torch.randn(2, 3, 40)

    def gradients(way):
        got = way(x)
        single, = torch.autograd.grad(got, x, weights[0], retain_graph=True)
        batch, = torch.autograd.grad(got, x, weights, is_grads_batched=True, retain_graph=True)
        given = weights[1].clone().requires_grad_()
        again, = torch.autograd.grad(torch.autograd.grad(got, x, given, create_graph=True)[0].sum(), given)
        return got, single, batch, again

    own = gradients(lambda x: altgrad.quantize(x, "ocp.e4m3fn", scale, mask_saturated=masked))
    for mine, wanted in zip(own, gradients(lambda x: torch.ops.altgrad.quantize(x, "ocp.e4m3fn", scale, masked))):
        assert torch.equal(mine, wanted)
    assert own[1].count_nonzero() < 120 or not masked


def test_without_grad_mode_nothing_is_recorded():
    x = torch.randn(40, requires_grad=True)
    with torch.no_grad():
        assert not altgrad.quantize(x, "ocp.e4m3fn", 0.5).requires_grad
    with torch.inference_mode():
        assert altgrad.quantize(x, "ocp.e4m3fn", 0.5).is_inference()
    assert altgrad.quantize(x, "ocp.e4m3fn", 0.5).requires_grad


def test_tensors_without_memory_have_results_like_them():
    x = torch.empty(3, 40, dtype=torch.bfloat16, device="meta", requires_grad=True)
    assert altgrad.quantize(x, "ocp.e4m3fn", 0.5).dtype == torch.bfloat16
    codes = altgrad.quant.quantize_codes(x, "altgrad.e3m4", 0.5)
    assert codes.is_meta and codes.shape == x.shape and codes.dtype == torch.uint8
    assert altgrad.dequantize(codes, 0.5, "altgrad.e3m4").is_meta


def test_torch_library_checks():
    x = torch.randn(10, requires_grad=True)
    for masked in (False, True):
        torch.library.opcheck(torch.ops.altgrad.quantize, (x, "ocp.e5m2", torch.tensor(0.5), masked))
    torch.library.opcheck(torch.ops.altgrad.quantize_codes, (x.detach(), "ocp.e4m3fn", torch.tensor(2.0)))
    torch.library.opcheck(torch.ops.altgrad.quantize, (x, "ocp.e5m2", torch.full((3, 1), 0.3), True))
    torch.library.opcheck(torch.ops.altgrad.quantize_codes, (x.detach(), "ocp.e5m2", torch.full((3, 1), 0.3)))


def test_vmap_and_compile():
    x = torch.randn(4, 33)
    one = lambda row: altgrad.quantize(row, "ocp.e4m3fn", 0.5)
    assert torch.equal(torch.vmap(one)(x), one(x))
    assert torch.equal(torch.vmap(one, in_dims=1, out_dims=1)(x), one(x))
    compiled = torch.compile(lambda v: altgrad.quantize(v * 2, "ocp.e4m3fn", 0.5).sum(), fullgraph=True,
                             backend="aot_eager")
    y = x.clone().requires_grad_()
    compiled(y).backward()
    assert torch.equal(y.grad, torch.full_like(y, 2.0))


def test_transforms_differentiate_as_backward_does():
    x, ones = torch.tensor([[0.3, -900.0], [7.0, 1.0]]), torch.ones(2, 2)
    one = lambda v: altgrad.quantize(v, "ocp.e4m3fn", 2.0, mask_saturated=True)
    kept = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    summed = lambda v: one(v).sum()
    assert torch.equal(torch.func.grad(summed)(x), kept)
    assert torch.equal(torch.vmap(torch.func.grad(summed))(x), kept)
    assert torch.equal(torch.func.jvp(one, (x,), (ones,))[1], kept)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, ones)
        assert torch.equal(torch.autograd.forward_ad.unpack_dual(one(dual)).tangent, kept)


def test_vmap_over_scales():
    x, scales = torch.randn(4, 3, 6), torch.tensor([0.1, 0.2, 0.37, 4.0])
    one = lambda v, s: altgrad.quantize(v, "ocp.e4m3fn", s)
    wanted = one(x, scales.view(4, 1, 1))
    assert torch.equal(torch.vmap(one)(x, scales), wanted)
    assert torch.equal(torch.vmap(one, in_dims=(1, 0))(x.movedim(0, 1), scales), wanted)
    assert torch.equal(torch.vmap(one, in_dims=(None, 0))(x[0], scales), one(x[:1], scales.view(4, 1, 1)))
    rows = scales.view(4, 1).expand(4, 3).unsqueeze(2)
    assert torch.equal(torch.vmap(one)(x, rows), wanted)
    codes = torch.vmap(lambda v, s: altgrad.quant.quantize_codes(v, "ocp.e4m3fn", s))(x, scales)
    assert torch.equal(altgrad.dequantize(codes, scales.view(4, 1, 1)), wanted)
    by_largest = lambda v: one(v, v.abs().amax() / 448)
    assert torch.equal(torch.vmap(by_largest)(x), torch.stack([by_largest(v) for v in x]))


def test_gradients_with_scales_of_rows_are_those_of_the_result():
    x = (torch.randn(5, 60) * 1e30).requires_grad_()
    weights = torch.randn(5, 60) * 1e20
    (altgrad.quantize(x, "ocp.e5m2", torch.full((5, 1), 1.7e30)) * weights).sum().backward()
    assert torch.equal(x.grad, weights)
    y = torch.randn(60, requires_grad=True)
    altgrad.quantize(y, "ocp.e5m2", torch.full((5, 1), 0.5)).sum().backward()
    assert torch.equal(y.grad, torch.full((60,), 5.0))


def test_int8_saturates_with_a_gradient():
    x = torch.tensor([126.6, 200.0, -500.0], requires_grad=True)
    got = altgrad.quantize(x, "int8", mask_saturated=True)
    got.sum().backward()
    assert got[:2].tolist() == [127, 127] and x.grad.tolist() == [1, 0, 0]


@pytest.mark.parametrize("call, error, words", [
    (lambda x: altgrad.quantize(x, "f32"), ValueError, "'f32' is no format"),
    (lambda x: torch.ops.altgrad.quantize(x, "ocp.e5m2\n--rule=adamw", torch.ones(()), False), ValueError, "is no format"),
    (lambda x: altgrad.quantize(x, "ocp.e5m2", torch.tensor(1j)), TypeError, "scale is of torch.complex64; it has to be real"),
    (lambda x: altgrad.quantize(x, "ocp.e5m2", None), TypeError, "scale is None, neither a number nor a tensor"),
    (lambda x: altgrad.quantize([1.0], "ocp.e5m2"), TypeError, "a list was given"),
    (lambda x: altgrad.dequantize([1.0]), TypeError, "a list was given; it has to be a real tensor"),
    (lambda x: altgrad.dequantize(x.cfloat()), TypeError, "a tensor of torch.complex64 was given"),
    (lambda x: altgrad.quantize(x, "e4m3"), ValueError, "'e4m3' is no format to round to; altgrad-opt --list-formats"),
    (lambda x: altgrad.quantize(x, "ocp.e4m3fn", 0.0), ValueError, "scale is 0.0; it has to be positive and finite"),
    (lambda x: altgrad.quantize(x, "ocp.e4m3fn", math.nan), ValueError, "scale is nan"),
    (lambda x: altgrad.quantize(x, "ocp.e4m3fn", math.inf), ValueError, "scale is inf; it has to be positive and finite"),
    (lambda x: altgrad.quantize(x, "ocp.e4m3fn", -1.0), ValueError, "scale is -1.0; it has to be positive and finite"),
    (lambda x: altgrad.dequantize(x, fmt="altgrad.e3m4"), TypeError, "a tensor of torch.float32 was given; codes of 'altgrad.e3m4' are of torch.uint8"),
    (lambda x: altgrad.dequantize(x, fmt="e9"), ValueError, "'e9' is no format"),
    (lambda x: altgrad.quantize(x, "ocp.e5m2", 1.0, block=2), ValueError, "block= needs a scale that is a tensor with a number for each block"),
    (lambda x: altgrad.quantize(x, "ocp.e5m2", torch.ones(2, 3), block=2), ValueError, "scale has 3 numbers in its last dimension; it has to have 2, because the 3 elements of x are 2 blocks of 2"),
    (lambda x: altgrad.quantize(x, "ocp.e5m2", torch.ones(2, 3), block=0), ValueError, "block is 0; it has to be a whole number of elements"),
    (lambda x: altgrad.quantize(x, "ocp.e4m3fn", 1e-50), ValueError, "scale is 1e-50; it has to be positive and finite in float32"),
    (lambda x: altgrad.quantize(x.double(), "ocp.e4m3fn"), TypeError, "a tensor of torch.float64 was given"),
    (lambda x: altgrad.quantize(x.to_sparse(), "ocp.e4m3fn"), (TypeError, NotImplementedError), "[Ss]parse"),
])
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(torch.randn(2, 3))


@pytest.mark.parametrize("fmt, largest, step", [("altgrad.e3m4", 31.0, 0.25), ("ocp.e2m1", 6.0, 1.0), ("altgrad.e0m15", 32767 / 32768, 2**-15)])
def test_formats_without_a_dtype_of_torch(fmt, largest, step):
    x = torch.tensor([1e9, -1e9, step / 2, math.nan, 0.3], requires_grad=True)
    got = altgrad.quantize(x, fmt, mask_saturated=True)
    assert got[:2].tolist() == [largest, -largest] and got[3] == 0
    got.sum().backward()
    assert x.grad.tolist() == [0, 0, 1, 0, 1]


@pytest.mark.parametrize("fmt, dtype", [("altgrad.e3m4", torch.uint8), ("ocp.e2m1", torch.uint8), ("altgrad.e0m15", torch.int16),
                                        ("int16", torch.int16), ("uint8", torch.uint8), ("ocp.e8m0", torch.uint8),
                                        ("int8", torch.int8), ("bf16", torch.bfloat16)])
def test_codes_of_formats_without_a_dtype(fmt, dtype):
    x = torch.cat([torch.randn(3000) * torch.exp2(torch.randint(-16, 16, (3000,)).float()), torch.tensor([0.0, -0.0, math.inf])])
    codes = altgrad.quant.quantize_codes(x, fmt, 0.5)
    assert codes.dtype == dtype and codes.shape == x.shape
    values = altgrad.quantize(x, fmt, 0.5)
    back = altgrad.dequantize(codes, 0.5, fmt)
    assert torch.equal(back, values) and torch.equal(back.signbit(), values.signbit())
    compiled = torch.compile(lambda v: altgrad.dequantize(altgrad.quant.quantize_codes(v, fmt, 0.5), 0.5, fmt), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x), back)
    assert torch.equal(torch.vmap(lambda c: altgrad.dequantize(c, 0.5, fmt))(codes.view(3, -1)).flatten(), back)


def test_every_code_of_a_narrow_format_has_its_number():
    codes = torch.arange(256, dtype=torch.uint8)
    fields, mantissa = (codes.int() >> 4) & 7, codes.int() & 15
    wanted = torch.where(fields > 0, (16 + mantissa) * 2.0 ** (fields - 7.0), mantissa * 2.0 ** -6)
    assert torch.equal(altgrad.dequantize(codes, fmt="altgrad.e3m4"), torch.where(codes < 128, wanted, -wanted))
    few = altgrad.dequantize(torch.tensor([2, 10, 0xf2], dtype=torch.uint8), fmt="ocp.e2m1")
    assert few.tolist() == [1, -1, 1]


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="nobody waits for a device's scale")
@pytest.mark.parametrize("call, error, words", [
    (lambda x: torch.ops.altgrad.quantize(x, "ocp.e5m2", torch.zeros(()), False), ValueError, "positive and finite"),
    (lambda x: altgrad.quantize(x, "ocp.e5m2", torch.tensor(1e-50, dtype=torch.float64)), ValueError, "positive and finite in float32"),
    (lambda x: altgrad.quantize(x, "ocp.e5m2", torch.full((2, 1), 1e300, dtype=torch.float64)), ValueError, "positive and finite in float32"),
    (lambda x: altgrad.quantize(x, "ocp.e4m3fn", torch.tensor([[1.0], [math.inf]])), ValueError, "positive and finite"),
])
def test_bad_scales_in_tensors(call, error, words):
    with pytest.raises(error, match=words):
        call(torch.randn(2, 3))
