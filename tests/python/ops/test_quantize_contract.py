"""The ten tests of the source's quantize and dequantize, by its definition: y = Q(x / scale) * scale."""

import math

import torch

import altgrad

E4M3, E5M2, NARROW = "ocp.e4m3fn", "ocp.e5m2", "altgrad.e3m4"  # NaN, infinities, neither


def of(numbers, fmt, scale=1.0, **more):
    return altgrad.quantize(torch.tensor(numbers), fmt, scale, **more).tolist()


def test_finite_numbers_beyond_the_largest_saturate():
    assert of([1e9, -1e9, 464.1], E4M3) == [448, -448, 448]
    assert of([1e9, -1e9, 3e38], E5M2) == [57344, -57344, 57344]
    assert of([1e9, -1e9], NARROW) == [31, -31]


def test_an_infinity_stays_where_the_format_has_it():
    assert of([math.inf, -math.inf], E5M2) == [math.inf, -math.inf]
    assert of([math.inf, -math.inf], E4M3) == [448, -448]
    assert of([math.inf, -math.inf], NARROW) == [31, -31]


def test_a_nan_stays_where_the_format_has_one():
    assert all(map(math.isnan, of([math.nan], E4M3) + of([-math.nan], E5M2)))
    assert of([math.nan], NARROW) == [0]


def test_below_half_of_the_least_number_is_zero():
    for fmt, least in ((E4M3, 2.0**-9), (E5M2, 2.0**-16), (NARROW, 2.0**-6)):
        assert of([least * 0.499, least / 2, least * 0.501], fmt) == [0, 0, least]


def test_a_zero_keeps_its_sign():
    for fmt in (E4M3, E5M2, NARROW):
        signs = [math.copysign(1, number) for number in of([0.0, -0.0, -1e-30], fmt)]
        assert signs == [1, -1, -1]


def test_the_scale_divides_and_multiplies():
    # 0.3 / 0.25 is 1.2, between 1.125 and 1.25; 99 / 0.25 is 396, between 384 and 416.
    assert of([0.3, 99.0, 1000.0], E4M3, 0.25) == [0.3125, 96, 112]
    assert of([1.0625, 1.1875], E4M3) == [1, 1.25]  # ties go to the even code


def test_the_gradient_passes_straight_through():
    x = torch.tensor([0.3, 1e9, -5.0], requires_grad=True)
    altgrad.quantize(x, E4M3, 0.5).backward(torch.tensor([1.0, 2.0, 3.0]))
    assert x.grad.tolist() == [1, 2, 3]


def test_the_scale_has_no_gradient():
    x, scale = torch.ones(3, requires_grad=True), torch.tensor(0.5, requires_grad=True)
    altgrad.quantize(x, E4M3, scale).sum().backward()
    altgrad.dequantize(x, scale).sum().backward()
    assert scale.grad is None


def test_dequantize_multiplies_and_so_does_its_gradient():
    x = torch.tensor([2.0, -3.0], requires_grad=True)
    y = altgrad.dequantize(x, 4.0)
    y.backward(torch.tensor([1.0, 0.5]))
    assert y.tolist() == [8, -12] and x.grad.tolist() == [4, 2]


def test_what_is_quantized_stays_what_it_is():
    x = torch.randn(4096) * torch.exp2(torch.randint(-12, 12, (4096,)).float())
    for fmt in (E4M3, E5M2, NARROW, "altgrad.e4m3", "ocp.e2m1"):
        once = altgrad.quantize(x, fmt, 0.125)
        assert torch.equal(altgrad.quantize(once, fmt, 0.125), once)


def test_a_dtype_of_torch_as_the_format_keeps_the_scale():
    for dtype, fmt in ((torch.bfloat16, "bf16"), (torch.float16, "f16")):
        x = torch.randn(1000, generator=torch.Generator().manual_seed(3)).to(dtype)
        for scale in (0.25, 0.3):
            expected = ((x.float() / scale).to(dtype).float() * torch.tensor(scale)).to(dtype)
            for given in (scale, torch.tensor(scale), torch.tensor([scale])):
                assert torch.equal(altgrad.quantize(x, fmt, given), expected)
            leaf = x.clone().requires_grad_()
            assert torch.equal(altgrad.quantize(leaf, fmt, scale).detach(), expected)
            assert torch.equal(altgrad.quant.quantize_codes(x, fmt, scale), (x.float() / scale).to(dtype))
