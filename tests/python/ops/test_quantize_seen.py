"""quantize and its kin where torch looks on: tracers, transforms, classes; and where memory is not what it seems."""

import os

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import altgrad

FP8, STANDS_IN = "ocp.e4m3fn", "ALTGRAD_STANDS_FOR_CUDA" in os.environ


class Own(torch.Tensor):
    pass


class Onlooker(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **kwargs or {})


def test_blocks_of_a_negative_view_have_its_signs():
    x = torch.randn(2, 32)
    for fmt in ("mxfp8", "ocp.e4m3fn:32", "mxfp4"):
        for got, wanted in zip(altgrad.quant.quantize_blocks(torch._neg_view(x), fmt), altgrad.quant.quantize_blocks(-x, fmt)):
            assert torch.equal(got.view(torch.uint8), wanted.view(torch.uint8))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("function", [lambda x: altgrad.quant.quantize_blocks(x, "ocp.e4m3fn:32")[1], lambda x: altgrad.quantize(x, FP8),
                                      lambda x: altgrad.quant.quantize_codes(x, "int8"), lambda x: altgrad.compute_global_grad_norm([x])])
def test_a_trace_has_no_numbers_of_its_example(function):
    traced = torch.jit.trace(function, torch.ones(32), check_trace=False)
    assert torch.equal(traced(torch.ones(32) * 64), function(torch.ones(32) * 64))


@pytest.mark.parametrize("differentiate", [lambda f, x: torch.func.grad(lambda v: f(v).sum())(x),
                                           lambda f, x: torch.func.jvp(f, (x,), (torch.ones(2),))[1]])
def test_what_compile_would_differentiate_wrongly_is_refused_in_words(differentiate):
    quantize = lambda x: altgrad.quantize(x, FP8)
    whole = torch.compile(lambda x: differentiate(quantize, x), backend="eager", fullgraph=True)
    with pytest.raises(Exception, match="torch.compile drops the gradient of altgrad.quantize"):
        whole(torch.ones(2))
    inner = torch.compile(quantize, backend="aot_eager")
    assert torch.equal(differentiate(inner, torch.ones(2)), torch.ones(2))
    assert torch.equal(torch.compile(torch.vmap(quantize), backend="aot_eager", fullgraph=True)(torch.ones(2, 2)), torch.ones(2, 2))
    assert torch.equal(torch.func.functionalize(quantize)(torch.ones(2)), torch.ones(2))


def test_codes_have_no_gradient_whoever_looks_on():
    def product(p):
        return (p * altgrad.dequantize(altgrad.quant.quantize_codes(p, FP8), 1.0)).sum()

    x, grads = torch.tensor([1.0, 2.2, -3.0]), []
    for call in (product, torch.compile(product, backend="aot_eager")):
        leaf = x.clone().requires_grad_()
        call(leaf).backward()
        grads.append(leaf.grad)
    with Onlooker():
        leaf = x.clone().requires_grad_()
        product(leaf).backward()
    for grad in (*grads, leaf.grad, torch.func.grad(product)(x)):
        assert torch.equal(grad, altgrad.quantize(x, FP8))


@pytest.mark.parametrize("fmt, dtype", [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_dequantized_codes_of_a_dtype_have_torchs_gradient(fmt, dtype):
    whole = lambda x: altgrad.dequantize(x, 2.0, fmt).sum()
    for call in (whole, torch.compile(whole, backend="aot_eager")):
        leaf = torch.ones(2, dtype=dtype, requires_grad=True)
        call(leaf).backward()
        assert leaf.grad.tolist() == [2, 2]
    assert torch.func.jvp(whole, (torch.ones(2, dtype=dtype),), (torch.ones(2, dtype=dtype),))[1] == 4


@pytest.mark.parametrize("scale", [1.0, torch.tensor(0.5), torch.tensor([[0.5], [0.25]])])
def test_a_class_without_kernels_is_read_as_a_tensor(scale):
    x = torch.randn(2, 32)
    for function in (altgrad.quantize, altgrad.quant.quantize_codes):
        got = function(x.as_subclass(Own), FP8, scale)
        assert type(got) is Own and torch.equal(got.as_subclass(torch.Tensor).float(), function(x, FP8, scale).float())
    codes, scales = altgrad.quant.quantize_blocks(x.as_subclass(Own), "mxfp8")
    wanted = altgrad.quant.quantize_blocks(x, "mxfp8")
    assert type(codes) is Own and torch.equal(scales.as_subclass(torch.Tensor).float(), wanted[1].float())


def test_meta_tensors_have_results_and_refusals():
    x = torch.empty(2, 32, device="meta")
    codes, scales = altgrad.quant.quantize_blocks(x, "mxfp8")
    assert codes.shape == (2, 32) and scales.shape == (2, 1) and codes.is_meta
    with pytest.raises(TypeError, match="codes of 'ocp.e2m1' are of torch.uint8"):
        altgrad.dequantize(x, 1.0, "ocp.e2m1")
    with pytest.raises(ValueError, match="'nope' is no format"):
        torch.ops.altgrad.quantize(x, "nope", torch.tensor(1.0, device="meta"), False)


@pytest.mark.skipif(STANDS_IN, reason="a device's memory is looked at when it is read")
@pytest.mark.parametrize("left", [0, 8])
def test_a_storage_that_was_shrunk_is_refused(left):
    def shrunk(tensor):
        tensor.untyped_storage().resize_(left)
        return tensor

    x, scale = torch.ones(4, 8), torch.ones(4, 1)
    for call in (lambda: altgrad.quantize(shrunk(x.clone()), FP8, scale), lambda: altgrad.quantize(x, FP8, shrunk(scale.clone())),
                 lambda: altgrad.quant.quantize_codes(shrunk(x.clone()), "int8", scale), lambda: altgrad.compute_scale(shrunk(x.clone()), FP8),
                 lambda: altgrad.dequantize(shrunk(x.clone()), scale), lambda: altgrad.dequantize(x, shrunk(scale.clone())),
                 lambda: altgrad.quantize(x, FP8, shrunk(torch.ones(4, 2)), block=4), lambda: altgrad.dequantize(x, shrunk(scale.double())),
                 lambda: torch.ops.altgrad.quantize(shrunk(x.clone()), FP8, scale, False),
                 lambda: altgrad.AmaxHistory().update(shrunk(x.clone())), lambda: altgrad.quant.quantize_blocks(shrunk(torch.ones(2, 32)))):
        with pytest.raises(RuntimeError, match=f"of a storage of {left} bytes"):
            call()


@pytest.mark.parametrize("call, error, words", [
    (lambda x: altgrad.quantize(x, FP8, mask_saturated=2), TypeError, "mask_saturated is 2; it has to be True or False"),
    (lambda x: altgrad.quantize(x, FP8, mask_saturated=None), TypeError, "mask_saturated is None"),
    (lambda x: altgrad.quantize(x, FP8, "2"), TypeError, "scale is '2', neither a number nor a tensor"),
    (lambda x: altgrad.dequantize(x, b"2"), TypeError, "scale is b'2', neither"),
    (lambda x: altgrad.quantize(x, FP8 + "\0zz"), ValueError, "is no format"),
    (lambda x: altgrad.quant.quantize_codes(x, "\udc80"), ValueError, "is no format"),
    (lambda x: altgrad.compute_scale(x, "int8\0j"), ValueError, "is no format"),
    (lambda x: altgrad.quant.quantize_blocks(x, "mxfp8\0"), ValueError, "names no blocks"),
    (lambda x: altgrad.quantize(x, FP8, torch.ones(4, 1).to_sparse()), TypeError, "scale is a tensor that is torch.sparse_coo; it has to be dense"),
    (lambda x: altgrad.quantize(x, FP8, torch.ones(5, 1)), ValueError, r"scale has the shape \(5, 1\), which does not broadcast"),
    (lambda x: torch.ops.altgrad.quantize(x, FP8, torch.ones(4, 1) * 1j, False), TypeError, "scale is of torch.complex64; it has to be real"),
    (lambda x: altgrad.compute_scale(x, FP8, dim=7), IndexError, "dim is 7; x has 2 dimensions"),
    (lambda x: altgrad.compute_scale(x, FP8, dim=1.5), TypeError, "dim is 1.5; it has to be an int or several"),
    (lambda x: altgrad.compute_scale("a", FP8), TypeError, "x is 'a', neither a tensor nor numbers"),
    (lambda x: altgrad.AmaxHistory().update(None), TypeError, "x is None, neither")])
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(torch.randn(4, 8))


def test_what_compile_sees_is_checked_there():
    for function in (altgrad.compute_scale, altgrad.quantize):
        with pytest.raises(ValueError, match="'nope' is no format"):
            torch.compile(lambda x: function(x, "nope"), backend="aot_eager")(torch.ones(3))


def test_integers_of_numpy_and_scales_of_wide_dtypes():
    x, two = torch.randn(4, 8), np.int64(2)
    scale = altgrad.compute_scale(x, FP8, block=two)
    assert torch.equal(altgrad.quantize(x, FP8, scale, block=two), altgrad.quantize(x, FP8, scale, block=2))
    assert torch.equal(altgrad.compute_scale(x, FP8, dim=np.int64(0)), altgrad.compute_scale(x, FP8, dim=0))
    got = torch.ops.altgrad.quantize(x, FP8, torch.full((4, 1), 2.0, dtype=torch.float64), False)
    assert torch.equal(got, altgrad.quantize(x, FP8, torch.full((4, 1), 2.0)))


def test_nested_tensors_are_taken_one_by_one_or_refused():
    parts = [torch.randn(2, 3), torch.randn(4, 3)]
    altgrad.quantize(torch.randn(18), FP8)  # as many elements: the next call would be quick
    got = altgrad.quantize(torch.nested.nested_tensor(parts), FP8)
    assert all(torch.equal(one, altgrad.quantize(part, FP8)) for one, part in zip(got.unbind(), parts))
    with pytest.raises(TypeError, match="scale is a tensor that is nested"):
        altgrad.quantize(parts[0], FP8, torch.nested.nested_tensor([torch.ones(1)]))


@pytest.mark.parametrize("fmt, least, greatest", [("int8", -128.0, 127.0), ("uint8", 0.0, 255.0), (FP8, -448.0, 448.0)])
def test_a_mask_is_of_what_is_beyond_either_end(fmt, least, greatest):
    x = torch.tensor([least - 1, least, 0.0, greatest, greatest + 1], requires_grad=True)
    altgrad.quantize(x, fmt, mask_saturated=True).sum().backward()
    assert x.grad.tolist() == [0, 1, 1, 1, 0]


def test_codes_lie_as_the_numbers_do():
    x = torch.empty_strided((1, 3), (7, 1)).fill_(1.0)
    assert altgrad.quant.quantize_codes(x, "int8", torch.ones(1)).stride() == altgrad.quantize(x, "int8", torch.ones(1)).stride()
