"""Copies in blocks of 16 x 16 and 32 x 32: what a step writes, both directions, files, and other libraries' bytes."""


import numpy as np
import pytest
import torch
import twins

import altgrad

from copies import bytes_of, made, matrix_of, mx


def check(state, numbers, top):
    """NVFP4 below the scale of a tensor whose largest magnitude is `top`."""
    codes, levels, unit = mx.two_levels_by_squares(matrix_of(numbers), np.float32(top))
    np.testing.assert_array_equal(bytes_of(state["copy"]), codes)
    np.testing.assert_array_equal(bytes_of(state["copy_scale"]), levels)
    assert state["copy_tensor_scale"] == unit


def top_of(param):
    return param.detach().abs().max().item() if param.numel() else 0


def still(x, storage):
    """The state of a parameter that a step does not move."""
    weight = torch.nn.Parameter(x.clone())
    weight.grad = torch.zeros_like(weight)
    optimizer = altgrad.optim.SGD([weight], lr=0.0, storage=storage)
    optimizer.step()
    return optimizer.state[weight]


@pytest.mark.parametrize("words", ["", ",current"])
def test_nvfp4_follows_the_largest_number(words):
    """That of the step before, or this step's."""
    given = made((64, 48), (3, 5, 16), (41,), (), (0, 64), (40, 272))
    optimizer = altgrad.optim.AdamW(given, lr=0.1, storage="copy=nvfp4:16x16" + words, max_grad_norm=1.0)
    for _ in range(3):
        tops = [top_of(param) for param in given]
        optimizer.step()
        for param, top in zip(given, tops):
            check(optimizer.state[param], param, top_of(param) if words else top) if param.numel() else None
            assert ("copy_amax" in optimizer.state[param]) is not bool(words)
    shapes = [(tuple(optimizer.state[p]["copy"].shape), tuple(optimizer.state[p]["copy_scale"].shape)) for p in given]
    assert shapes == [((64, 24), (4, 3)), ((3, 5, 8), (1, 1)), ((21,), (1, 3)), ((), (1, 1)), ((0, 32), (0, 4)),
                      ((40, 136), (3, 17))]
    assert optimizer.state[given[0]]["copy_scale"].dtype == torch.float8_e4m3fn


def test_mxfp8_may_end_at_any_edge():
    given = made((130, 260), (3, 50, 200), (300,), (), (1, 33))
    optimizer = altgrad.optim.AdamW(given, storage="copy=mxfp8:32x32 m=ocp.e4m3fn", max_grad_norm=1.0)
    for _ in range(2):
        optimizer.step()
    for param in given:
        codes, scales = mx.by_squares(matrix_of(param), "ocp.e4m3fn", "rceil", side=32)
        np.testing.assert_array_equal(bytes_of(optimizer.state[param]["copy"]), codes)
        np.testing.assert_array_equal(bytes_of(optimizer.state[param]["copy_scale"]), scales)
    assert [tuple(optimizer.state[p]["copy_scale"].shape) for p in given] == [(5, 9), (5, 7), (1, 10), (1, 1), (1, 2)]


def unpacked(codes):
    return torch.stack((codes & 15, codes >> 4), -1).flatten(-2)


@pytest.mark.parametrize("storage", ["copy=nvfp4:16x16,current", "copy=mxfp8:32x32", "copy=mxfp4:32x32"])
def test_the_transposed_weight_has_the_same_numbers(storage):
    """One scale is that of rows and of columns: what forward and backward read is one matrix."""
    x = torch.randn(96, 160, generator=torch.Generator().manual_seed(0))
    ours, turned = still(x, storage), still(x.t().contiguous(), storage)
    codes, others = [unpacked(state["copy"]) if "fp4" in storage else state["copy"].view(torch.uint8)
                     for state in (ours, turned)]
    assert torch.equal(codes.t(), others)
    assert torch.equal(ours["copy_scale"].view(torch.uint8).t(), turned["copy_scale"].view(torch.uint8))


def test_files_and_copies_of_the_optimizer():
    weight, = made((40, 48))
    for run in twins.beside_a_file(weight, lambda params: altgrad.optim.Lion(params, storage="copy=nvfp4:16x16")):
        param, = run.param_groups[0]["params"]
        top = top_of(param)
        run.step()
        check(run.state[param], param, top)


@pytest.mark.parametrize("words", ["", ",current"])
def test_a_copy_is_there_when_the_first_step_is_skipped(words):
    weight, = made((24, 48))
    weight.grad[0, 0] = torch.inf
    scaler = altgrad.amp.GradScaler("cpu")
    optimizer = altgrad.optim.AdamW([weight], storage="copy=nvfp4:16x16" + words)
    scaler.scale(torch.ones(()))
    scaler.step(optimizer), scaler.update()
    check(optimizer.state[weight], weight, top_of(weight))


def test_what_has_no_such_squares_is_refused():
    weight, = made((8, 40))
    with pytest.raises(ValueError, match="rows of 40 elements, which is no multiple of the 16 in a block of its copy"):
        altgrad.optim.AdamW([weight], storage="copy=nvfp4:16x16").step()
    with pytest.raises(ValueError, match="rows of 40 elements, no multiple of the 16 in a block of 'mxfp4:32x32'"):
        altgrad.quant.quantize_blocks(weight, "mxfp4:32x32")
    for word in ("copy=nvfp4:64x64", "copy=ocp.e4m3fn:16x32"):
        with pytest.raises(ValueError, match="or of a copy 16x16, 32x32 or 128x128"):
            altgrad.optim.AdamW([weight], storage=word)


@pytest.mark.parametrize("fmt", ["mxfp8:32x32", "mxfp4:32x32,floor", "ocp.e5m2:16x16"])
def test_quantize_blocks_is_what_a_step_writes(fmt):
    x = torch.from_numpy(mx.numbers_of_all_kinds(320, 5)).view(40, 256)
    codes, scales = altgrad.quant.quantize_blocks(x, fmt)
    state = still(x, "copy=" + fmt)
    assert codes.shape == state["copy"].shape and scales.shape == state["copy_scale"].shape
    np.testing.assert_array_equal(bytes_of(codes), bytes_of(state["copy"]))
    np.testing.assert_array_equal(bytes_of(scales), bytes_of(state["copy_scale"]))


def equal_rows(side, top):
    """Numbers of which each row of a square has the square's largest: blocks of rows have the squares' scales."""
    dice = torch.Generator().manual_seed(0)
    x = torch.randn(96 // side, side, 160 // side, side, generator=dice)
    x *= 2.0 ** torch.randint(-6, 3, (96 // side, 1, 160 // side, 1), generator=dice)
    x[..., 3] = x.abs().amax((1, 3))[:, None]
    x = x.view(96, 160)
    return x * (top / x.abs().max()) if top else x


@pytest.mark.parametrize("rule", mx.RULES)
def test_mxfp8_is_torchaos_where_rows_share_their_largest(rule):
    config = pytest.importorskip("torchao.prototype.mx_formats.config", exc_type=ImportError,
                                 reason="torchao is not installed")
    from torchao.prototype.mx_formats.mx_tensor import to_mx
    x = equal_rows(32, None)
    scales, codes = to_mx(x, torch.float8_e4m3fn, 32, config.ScaleCalculationMode(rule))
    state = still(x, f"copy=mxfp8:32x32,{rule}")
    assert torch.equal(state["copy"].view(torch.uint8), codes.view(torch.uint8))
    assert torch.equal(state["copy_scale"].view(torch.uint8).repeat_interleave(32, 0), scales.view(torch.uint8))


def test_nvfp4_is_torchaos_where_rows_share_their_largest():
    """With a power of two for the tensor's scale, as torchao divides by it; no block's scale is below torchao's least."""
    nvfp4 = pytest.importorskip("torchao.prototype.mx_formats.nvfp4_tensor", exc_type=ImportError,
                                reason="torchao is not installed")
    x = equal_rows(16, 2688.0 / 1024)
    scales, codes = nvfp4.nvfp4_quantize(x, per_tensor_scale=torch.tensor(1 / 1024))[:2]
    state = still(x, "copy=nvfp4:16x16,current")
    assert state["copy_tensor_scale"] == 1 / 1024
    assert torch.equal(state["copy_scale"].view(torch.uint8).repeat_interleave(16, 0), scales.view(torch.uint8))
    assert torch.equal(state["copy"], codes.view(torch.uint8))


def test_nvfp4_is_transformer_engines_reference():
    """Its scales are there once for each row, and a second time for the transposed weight."""
    theirs = pytest.importorskip("transformer_engine.pytorch.custom_recipes.reference_nvfp4", exc_type=ImportError,
                                 reason="TransformerEngine is not installed")
    x = torch.randn(96, 160, generator=torch.Generator().manual_seed(0))
    codes, scales = theirs.NVFP4QuantizerRef._quantize_blockwise_reference(
        x, x.abs().max().view(1), 16, 16, pow_2_scales=False, eps=0.0)[:2]
    state = still(x, "copy=nvfp4:16x16,current")
    assert torch.equal(state["copy_scale"].repeat_interleave(16, 0).view(torch.uint8), scales.view(torch.uint8))
    assert torch.equal(state["copy"], codes)
