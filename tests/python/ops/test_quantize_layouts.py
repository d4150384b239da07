"""Scales of tensors, rows, columns, blocks and elements, in any layout: against a search for the nearest number."""

import os
import threading

import pytest
import torch

import altgrad
from nearest import FORMATS, nearest

E4M3, STANDS_IN = "ocp.e4m3fn", "ALTGRAD_STANDS_FOR_CUDA" in os.environ
SCALES = {  # of a tensor of shape (6, 5, 96): the shape of its scales
    "one": (), "one of one": (1,), "tensor": (1, 1, 1), "columns": (96,), "rows": (6, 5, 1), "matrices": (6, 1, 1),
    "middle": (5, 1), "matrix and column": (6, 1, 96), "columns of matrices": (5, 96), "elements": (6, 5, 96)}


def numbers(*shape, dtype=torch.float32, least=-6):
    return (torch.randn(shape) * torch.exp2(torch.randint(least, 9, shape).float())).to(dtype)


def scales(*shape):
    return torch.exp2(torch.rand(shape) * 8 - 4)


def same(got, wanted):
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    assert torch.equal(got.nan_to_num(3.25), wanted.nan_to_num(3.25))
    assert torch.equal(got.signbit() & ~got.isnan(), wanted.signbit() & ~wanted.isnan())


def codes_of(values, fmt):
    return values.float().to(FORMATS[fmt]).view(torch.uint8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("shape", SCALES.values(), ids=SCALES)
def test_scales_that_broadcast(shape, fmt, dtype):
    x, scale = numbers(6, 5, 96, dtype=dtype), scales(*shape)
    x.view(-1)[::97] = torch.nan
    same(altgrad.quantize(x, fmt, scale), nearest(x, fmt, scale))
    codes = altgrad.quant.quantize_codes(x, fmt, scale)
    numbers_of = nearest(x.float() / scale, fmt, 1.0)
    assert torch.equal(codes.view(torch.uint8)[~x.isnan()], codes_of(numbers_of, fmt)[~x.isnan()])


@pytest.mark.parametrize("block", [1, 2, 16, 17, 32, 48, 64, 96, 256, 1000, 10**30])
@pytest.mark.parametrize("shape", [(96,), (7, 96), (2, 3, 100), (3, 300), (1, 1), (5, 1), (1, 513)])
def test_blocks_of_the_last_dimension(shape, block):
    blocks = -(-shape[-1] // block)
    x, scale = numbers(*shape), scales(*shape[:-1], blocks)
    each = scale[..., torch.arange(shape[-1]) // min(block, 1000)]
    same(altgrad.quantize(x, E4M3, scale, block=block), nearest(x, E4M3, each))
    shared = scales(blocks)  # by all rows
    each = shared[torch.arange(shape[-1]) // min(block, 1000)]
    same(altgrad.quantize(x, E4M3, shared, block=block), nearest(x, E4M3, each))


LAYOUTS = {
    "turned": lambda t: t.transpose(0, 2), "every second": lambda t: t[:, ::2], "one of a row": lambda t: t[..., :1],
    "from the middle": lambda t: t[2:, :, 7:], "expanded": lambda t: t[:, :1].expand(-1, 4, -1),
    "flipped": lambda t: t.flip(0), "no row": lambda t: t[:0], "one number": lambda t: t[3, 2, 1]}


@pytest.mark.parametrize("view", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_of_numbers_and_of_scales(view):
    x, scale = view(numbers(6, 5, 96)), view(scales(6, 5, 96))
    for own in (scale, scale.contiguous(), scale[..., :1] if scale.dim() else scale, scale[:1] if scale.dim() else scale):
        if own.numel() or not x.numel():
            same(altgrad.quantize(x, E4M3, own), nearest(x, E4M3, own))
            same(altgrad.quantize(x.contiguous(), E4M3, own), nearest(x.contiguous(), E4M3, own))


def test_many_shapes_one_after_the_other():
    """More than plans are kept, twice; and rows that chunks do not end with."""
    for _ in range(2):
        for n in (*range(1, 300, 97 if STANDS_IN else 1), 4095, 4096, 4097, 12289):
            x, scale = numbers(3, n), scales(3, 1)
            same(altgrad.quantize(x, E4M3, scale), nearest(x, E4M3, scale))
            same(altgrad.quantize(x, E4M3, 0.75), nearest(x, E4M3, 0.75))


def test_scales_that_are_too_many_or_make_more():
    x = numbers(1, 40)
    wide = scales(300, 1)  # the result is larger than x
    same(altgrad.quantize(x, E4M3, wide), nearest(x.expand(300, 40), E4M3, wide))
    rows = numbers(2**18 + 1, 3)
    many = scales(2**18 + 1, 1)
    same(altgrad.quantize(rows, E4M3, many), nearest(rows, E4M3, many))


@pytest.mark.skipif(STANDS_IN, reason="nobody waits for a device's scale")
@pytest.mark.parametrize("bad", [0.0, -1.0, torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("shape", [(4, 1), (96,), (4, 96), (4, 3)])
def test_one_bad_scale_is_refused(shape, bad):
    x, scale = numbers(4, 96), scales(*shape)
    scale.view(-1)[-1] = bad
    with pytest.raises(ValueError, match="positive and finite"):
        altgrad.quantize(x, E4M3, scale, block=32 if shape == (4, 3) else None)


def test_gradients_pass_through_whatever_scales():
    for scale in (0.5, torch.tensor(0.5), scales(4, 1), scales(96), scales(4, 96)):
        x = numbers(4, 96).requires_grad_()
        back = torch.randn(4, 96, requires_grad=True)
        out = altgrad.quantize(x * 1, E4M3, scale)
        assert out.requires_grad
        grad, = torch.autograd.grad(out, x, back, create_graph=True)
        assert torch.equal(grad, back)
        again, = torch.autograd.grad(grad.sum(), back)
        assert torch.equal(again, torch.ones(4, 96))
        with torch.no_grad():
            assert not altgrad.quantize(x, E4M3, scale).requires_grad
        assert not altgrad.quant.quantize_codes(x, E4M3, scale).requires_grad


def test_a_leaf_accumulates_and_hooks_see_it():
    x, seen = numbers(96).requires_grad_(), []
    x.register_hook(lambda grad: seen.append(grad.clone()))
    for _ in range(2):
        out = altgrad.quantize(x, E4M3, 0.5)
        out.mul_(2)  # what is new may be changed
        out.sum().backward()
    assert torch.equal(x.grad, torch.full((96,), 4.0)) and len(seen) == 2
    with torch.inference_mode():
        assert altgrad.quantize(x, E4M3, 0.5).is_inference()


class NoGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, grad):
        return None


@pytest.mark.parametrize("masked", [False, True])
def test_no_gradient_stays_none(masked):
    """As behind torch's own functions: an optimizer skips a parameter whose gradient is None, and decays one whose is 0."""
    x = numbers(4, 96).requires_grad_()
    NoGradient.apply(altgrad.quantize(x, E4M3, mask_saturated=masked)).sum().backward()
    assert x.grad is None


def test_compiled_autograd_sees_the_gradient_pass():
    graphs = []

    def compiler(graph):
        graphs.append(graph)
        return graph
    x = numbers(4, 96).requires_grad_()
    with torch._dynamo.compiled_autograd._enable(compiler):
        (altgrad.quantize(x * 2, E4M3, 0.5) * 3).sum().backward()
    assert graphs and torch.equal(x.grad, torch.full((4, 96), 6.0))


def test_threads_have_plans_of_their_own():
    x = [numbers(64, 1000 + i) for i in range(4)]
    scale, found = scales(64, 1), {}

    def work(i):
        for _ in range(50):
            found[i] = altgrad.quantize(x[i], E4M3, scale)
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        same(found[i], nearest(x[i], E4M3, scale))


def resident():
    """Bytes of this process that are in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_plans_of_many_rows_and_of_threads_that_ended_are_given_back():
    """One of them has 10 MB."""
    rows = 2**16 if not STANDS_IN else 2**10
    x, scale = numbers(rows, 3), scales(rows, 1)
    altgrad.quantize(x, E4M3, scale)
    before = resident()
    for i in range(1, 10):
        altgrad.quantize(x[:-i], E4M3, scale[:-i])
    for _ in range(10):
        thread = threading.Thread(target=altgrad.quantize, args=(x, E4M3, scale))
        thread.start()
        thread.join()
    assert resident() - before < 100e6  # of 250e6
