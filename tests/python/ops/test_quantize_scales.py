"""Scales from magnitudes, their history, and one for each row or block: against plain Python."""

import copy
import math
import os
from fractions import Fraction

import numpy as np
import pytest
import torch

import altgrad

MOST = {"ocp.e4m3fn": 448.0, "ocp.e5m2": 57344.0, "altgrad.e3m4": 31.0, "altgrad.e0m7": 127 / 128, "int8": 127.0}


def wanted(amax, fmt):
    """altgrad's rule, in words of Python."""
    return torch.tensor(1e-10 if amax < 1e-10 else max(amax * 1.01 / MOST[fmt], 1e-10)).item()


@pytest.mark.parametrize("fmt", MOST)
@pytest.mark.parametrize("amax", [0.0, 1e-30, 9.9e-11, 1e-10, 1e-8, 1.0, 448.0, 1e30])
def test_the_rule(fmt, amax):
    amax = torch.tensor(amax).item()
    scale = altgrad.compute_scale(amax, fmt)
    assert scale.dtype == torch.float32 and scale.shape == () and scale.item() == wanted(amax, fmt)
    x = torch.tensor([[amax / 2, -amax], [0.0, amax / 3]])
    assert torch.equal(altgrad.compute_scale(x, fmt), scale)
    if amax >= 1e-8:  # nothing saturates
        assert (x / scale).abs().max() < MOST[fmt]


def test_rows_blocks_and_what_does_not_count():
    x = torch.randn(4, 100)
    x[1, 3], x[2, 5], x[3] = math.nan, math.inf, 0.0
    finite = torch.where(x.isfinite(), x, 0.0).abs()
    rows = altgrad.compute_scale(x, "ocp.e5m2", dim=-1)
    assert rows.flatten().tolist() == [wanted(a, "ocp.e5m2") for a in finite.amax(1).tolist()]
    blocks = altgrad.compute_scale(x, "ocp.e5m2", block=32)
    assert blocks.shape == (4, 4)
    assert blocks.tolist() == [[wanted(part.max().item(), "ocp.e5m2") for part in row.split(32)] for row in finite]
    assert altgrad.compute_scale(torch.ones(0), "ocp.e5m2").item() == wanted(0, "ocp.e5m2")
    assert altgrad.compute_scale(torch.ones(3, 0), "ocp.e5m2", block=32).shape == (3, 0)
    assert altgrad.compute_scale(torch.ones(3, 0), "ocp.e5m2", dim=1).shape == (3, 1)


def test_a_scale_for_each_block():
    x = torch.randn(3, 100, requires_grad=True)
    scale = altgrad.compute_scale(x, "ocp.e4m3fn", block=32)
    got = altgrad.quantize(x, "ocp.e4m3fn", scale, block=32)
    for row in range(3):
        for index, part in enumerate(x[row].split(32)):
            one = altgrad.quantize(part.detach(), "ocp.e4m3fn", scale[row, index].item())
            assert torch.equal(got[row, 32 * index:32 * index + 32], one)
    codes = altgrad.quant.quantize_codes(x.detach(), "ocp.e4m3fn", scale, block=32)
    assert torch.equal(altgrad.dequantize(codes, scale, block=32), got)
    got.sum().backward()
    assert torch.equal(x.grad, torch.ones_like(x))
    compiled = torch.compile(lambda v: altgrad.quantize(v, "ocp.e4m3fn", altgrad.compute_scale(v, "ocp.e4m3fn", block=32), block=32),
                             fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x.detach()), got)


def test_the_history_is_the_largest_of_the_last_sixteen():
    history, seen = altgrad.AmaxHistory(), []
    assert history.amax.item() == 1 and history.scale("ocp.e4m3fn").item() == wanted(1.0, "ocp.e4m3fn")
    for step in range(50):
        x = torch.randn(5) * 0.9**step
        seen.append(x.abs().max().item())
        history.update(x)
        assert history.amax.item() == max(seen[-16:])
    assert history.scale("ocp.e5m2").item() == wanted(max(seen[-16:]), "ocp.e5m2")
    history.update(torch.tensor([math.nan, math.inf]))
    assert history.amax.item() == max(seen[-15:])


def test_a_history_is_saved_copied_and_part_of_a_module():
    history = altgrad.AmaxHistory(3)
    for number in (5.0, 1.0):
        history.update(torch.tensor(number))
    other = altgrad.AmaxHistory(3)
    other.load_state_dict(history.state_dict())
    twin = copy.deepcopy(history)
    for each in (history, other, twin):
        each.update(torch.tensor(2.0))
        each.update(torch.tensor(0.5))
        assert each.amax.item() == 2 and each.history.tolist() == [0.5, 1, 2]
    module = torch.nn.Module()
    module.amax = history
    assert set(module.state_dict()) == {"amax.history", "amax.count"}
    with pytest.raises(RuntimeError, match="size mismatch"):
        altgrad.AmaxHistory(4).load_state_dict(history.state_dict())


@pytest.mark.parametrize("call, words", [
    (lambda: altgrad.compute_scale(1.0, "e9"), "'e9' is no format"),
    (lambda: altgrad.compute_scale(torch.ones(3), "ocp.e5m2", block=0), "block is 0; it has to be a whole number of elements"),
    (lambda: altgrad.compute_scale(torch.ones(3), "ocp.e5m2", block=2, dim=0), "block= needs a tensor with a dimension, and no dim= beside it"),
    (lambda: altgrad.compute_scale(torch.ones(3), "ocp.e5m2", block=True), "block is True; it has to be a whole number of elements"),
    (lambda: altgrad.compute_scale(2.0, "ocp.e5m2", block=2), "block= needs a tensor with a dimension"),
    (lambda: altgrad.AmaxHistory(True), "length is True; it has to be a whole number of tensors, at least 1"),
    (lambda: altgrad.AmaxHistory(0), "length is 0; it has to be a whole number of tensors, at least 1")])
def test_bad_input(call, words):
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize("what", [lambda x: altgrad.quant.quantize_blocks(x, "mxfp8"), lambda x: altgrad.quantize(x, "ocp.e4m3fn", 1.0),
                                  lambda x: altgrad.compute_scale(x, "ocp.e4m3fn", block=32), altgrad.AmaxHistory().update])
def test_a_sparse_tensor_is_refused_in_words(what):
    with pytest.raises(TypeError, match="torch.sparse_coo"):
        what(torch.randn(64).to_sparse())


def test_rows_that_are_no_multiple_of_a_block_are_the_tensors():
    with pytest.raises(ValueError, match=r"a tensor of shape \(3, 5\) has rows of 5 elements, no multiple of the 32 in a block of 'mxfp8'"):
        altgrad.quant.quantize_blocks(torch.randn(3, 5))


@pytest.mark.parametrize("scale", [3.4028235e38, 2**127, Fraction(1, 3), 2.0**128 - 2.0**103 - 2.0**75])
def test_a_number_is_taken_on_every_path_alike(scale):
    numbers = torch.tensor([1.0, -2.5e38])
    plain = altgrad.quantize(numbers, "bf16", scale)
    factor = torch.tensor(float(np.float32(scale)))
    assert torch.equal(plain, altgrad.quantize(numbers, "bf16", factor))
    assert torch.equal(plain, altgrad.quantize(numbers.clone().requires_grad_(), "bf16", scale).detach())


@pytest.mark.parametrize("scale", [Fraction(10**400), 2**129, 10**400, 1e39])
def test_a_number_beyond_float32_is_refused_in_words(scale):
    for x in (torch.ones(3), torch.ones(3).requires_grad_()):
        with pytest.raises(ValueError, match="it has to be positive and finite in float32"):
            altgrad.quantize(x, "bf16", scale)


def test_a_scale_that_is_flushed_to_zero_is_refused():
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU flushes nothing")
    try:
        with pytest.raises(ValueError, match="positive and finite"):
            altgrad.quantize(torch.ones(3), "bf16", 1e-40)
    finally:
        torch.set_flush_denormal(False)


def test_a_scale_without_a_number_is_refused():
    for function in (altgrad.quantize, altgrad.quant.quantize_codes):
        with pytest.raises(ValueError, match="scale is on the meta device"):
            function(torch.ones(3), "bf16", torch.tensor(1.0, device="meta"))


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
def test_a_trace_has_the_operator():
    numbers = torch.tensor([1.0, 2.3, -3.7])
    traced = torch.jit.trace(lambda x: altgrad.quantize(x, "ocp.e4m3fn", 0.5), numbers, check_trace=False)
    assert torch.equal(traced(3 * numbers), altgrad.quantize(3 * numbers, "ocp.e4m3fn", 0.5))


@pytest.mark.parametrize("scale", [torch.tensor([[0.5], [0.25]]), torch.tensor(0.5)])
def test_a_scale_of_a_class_of_its_own_is_asked_through_the_operator(scale):
    class Own(torch.Tensor):
        pass

    x, own = torch.randn(2, 3), scale.as_subclass(Own)
    for function in (altgrad.quantize, altgrad.quant.quantize_codes):
        got = function(x, "ocp.e4m3fn", own)
        assert type(got) is Own and torch.equal(got.as_subclass(torch.Tensor).float(), function(x, "ocp.e4m3fn", scale).float())
    assert torch.equal(altgrad.dequantize(x, own).as_subclass(torch.Tensor), x * scale)


@pytest.mark.filterwarnings("ignore:Named tensors")
@pytest.mark.skipif(not hasattr(torch.Tensor, "has_names"), reason="torch 2.15 has no named tensors")
def test_a_result_has_the_names_of_the_numbers():
    plain, scale = torch.randn(2, 3), torch.tensor([[0.5], [0.25]])
    x, named = plain.clone().rename("a", "b"), scale.clone().rename("c", "d")
    for function in (altgrad.quantize, altgrad.quant.quantize_codes):
        for numbers in (plain, x):
            got = function(numbers, "ocp.e4m3fn", named)
            assert got.names == numbers.names
            assert torch.equal(got.rename(None).float(), function(plain, "ocp.e4m3fn", scale).float())
    assert torch.equal(altgrad.dequantize(plain, named), plain * scale)


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="nobody waits for a device's scale")
@pytest.mark.parametrize("scale, error, words", [
    (-1.0, ValueError, "scale is -1.0; it has to be positive"), (math.nan, ValueError, "scale is nan"),
    pytest.param(10**400, ValueError, "scale is inf; it has to be positive and finite", id="large"),
    (torch.tensor(1j), TypeError, "scale is of torch.complex64; it has to be real"),
    (torch.tensor([1.0, 0.0, 1.0]), ValueError, "it has to be positive and finite"),
    (torch.tensor(math.inf), ValueError, "it has to be positive and finite")])
def test_dequantize_refuses_the_scales_that_quantize_refuses(scale, error, words):
    for function in (lambda: altgrad.quantize(torch.ones(3), "bf16", scale), lambda: altgrad.dequantize(torch.ones(3), scale)):
        with pytest.raises(error, match=words):
            function()


@pytest.mark.parametrize("cast", [torch.nn.Module.half, torch.nn.Module.bfloat16, torch.nn.Module.double])
def test_a_history_stays_in_float32(cast):
    history = altgrad.AmaxHistory(2)
    history.update(torch.tensor([70001.0]))
    cast(history)
    history.update(1e39)
    history.update(3.0)
    assert history.amax.dtype == torch.float32 and history.amax.item() == torch.finfo(torch.float32).max
    history.update([70001.0])
    assert history.amax.item() == 70001 and torch.equal(history.scale("ocp.e4m3fn"), altgrad.compute_scale(70001.0, "ocp.e4m3fn"))


@pytest.mark.parametrize("amax", [1e39, 1e300, 2**70, torch.tensor([1e39], dtype=torch.float64)])
def test_magnitudes_beyond_float32_are_finite(amax):
    number = float(amax)
    assert altgrad.compute_scale(amax, "ocp.e4m3fn").item() == min(np.float32(min(number * 1.01 / 448, 3.4028234663852886e38)), 3.4028234663852886e38)


def test_a_history_that_somebody_else_has_cast_stays_finite():
    history = altgrad.AmaxHistory(2)
    history.history.data = history.history.half()  # as FSDP casts buffers
    history.update(torch.tensor([70001.0]))
    assert history.amax.dtype == torch.float32 and history.amax.item() == 65504


def test_defaults_of_torch_change_no_scale():
    x = torch.randn(8)
    scale, number = altgrad.compute_scale(x, "ocp.e4m3fn"), altgrad.compute_scale(70000.0, "ocp.e4m3fn")
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device("meta"):
            assert torch.equal(altgrad.compute_scale(x, "ocp.e4m3fn"), scale)
            assert torch.equal(altgrad.compute_scale(70000.0, "ocp.e4m3fn"), number)
            assert altgrad.AmaxHistory(2, "cpu").scale("ocp.e4m3fn").dtype == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_block_larger_than_a_row_is_the_row():
    x = torch.randn(2, 3)
    for block in (3, 2**40, 2**70):
        assert torch.equal(altgrad.compute_scale(x, "ocp.e4m3fn", block=block), altgrad.compute_scale(x, "ocp.e4m3fn", dim=1))
    assert torch.equal(altgrad.compute_scale(torch.tensor(2.0), "ocp.e4m3fn", dim=-1), altgrad.compute_scale(2.0, "ocp.e4m3fn"))
