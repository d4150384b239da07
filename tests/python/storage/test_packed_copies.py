"""Copies in MXFP4, two codes to a byte: what a step writes, files, and quantize_blocks."""

import copy
import io

import numpy as np
import pytest
import torch

import altgrad

from copies import made, mx



def check(codes, scales, numbers, rule="rceil"):
    """The even element's code is the lower half."""
    wanted, units = mx.encoded(numbers.detach().float().numpy().ravel(), rule, "ocp.e2m1")
    wanted = np.append(wanted, np.zeros(len(wanted) % 2, np.uint8))
    np.testing.assert_array_equal(codes.numpy().ravel(), wanted[::2] | wanted[1::2] << 4)
    np.testing.assert_array_equal(scales.view(torch.uint8).numpy().ravel(), units)


@pytest.mark.parametrize("rule", mx.RULES)
def test_copies_are_their_parameters_quantised(rule):
    given = made((64, 96), (3, 5, 32), (41,), (), (0, 64))
    optimizer = altgrad.optim.AdamW(given, storage=f"copy=mxfp4,{rule}", max_grad_norm=1.0)
    for _ in range(3):
        optimizer.step()
    shapes = []
    for param in given:
        state = optimizer.state[param]
        shapes.append(tuple(state["copy"].shape))
        assert state["copy"].dtype == torch.uint8 and state["copy_scale"].dtype == torch.float8_e8m0fnu
        check(state["copy"], state["copy_scale"], param, rule) if param.numel() else None
    assert shapes == [(64, 48), (3, 5, 16), (21,), (), (0, 32)]
    assert optimizer.state[given[0]]["copy"].view(torch.float4_e2m1fn_x2).shape == (64, 48)


def test_decoded_they_are_the_master_rounded_and_torchao_says_so():
    mx_tensor = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    weight, = made((128, 64), dtype=torch.bfloat16)
    optimizer = altgrad.optim.AdamW([weight], storage="master=f32 copy=mxfp4,floor")
    optimizer.step()
    state = optimizer.state[weight]
    got = mx_tensor.to_dtype(state["copy"], state["copy_scale"], torch.float4_e2m1fn_x2, 32, torch.float32)
    scale = state["copy_scale"].float().repeat_interleave(32, -1)
    grid = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6])
    near = (state["master"].abs() / scale).unsqueeze(-1).sub(grid).abs().min(-1).values
    torch.testing.assert_close((got - state["master"]).abs() / scale, near, rtol=1e-6, atol=1e-6)


def test_a_copy_is_there_when_the_first_step_is_skipped():
    weight, = made((8, 64))
    weight.grad[0, 0] = torch.inf
    scaler = altgrad.amp.GradScaler("cpu")
    optimizer = altgrad.optim.AdamW([weight], storage="copy=mxfp4")
    scaler.scale(torch.ones(()))
    scaler.step(optimizer), scaler.update()
    check(optimizer.state[weight]["copy"], optimizer.state[weight]["copy_scale"], weight)


def test_files_and_copies_of_the_optimizer():
    weight, = made((64, 64))
    line = "copy=mxfp4,even m=mxfp4"
    optimizer = altgrad.optim.Lion([weight], storage=line)
    optimizer.step()
    file = io.BytesIO()
    torch.save({"w": weight.detach(), "o": optimizer.state_dict()}, file)
    held = torch.load(io.BytesIO(file.getvalue()))
    other = torch.nn.Parameter(held["w"])
    resumed = altgrad.optim.Lion([other], storage=line)
    resumed.load_state_dict(held["o"])
    for run in (resumed, copy.deepcopy(resumed), optimizer):
        param, = run.param_groups[0]["params"]
        param.grad = weight.grad.clone()
        run.step()
        check(run.state[param]["copy"], run.state[param]["copy_scale"], param, "even")
    for key in ("copy", "exp_avg"):
        assert resumed.state[other][key].shape == (64, 32)
        assert torch.equal(resumed.state[other][key], optimizer.state[weight][key])


def test_quantize_blocks_is_what_a_step_writes():
    x = torch.from_numpy(mx.numbers_of_all_kinds(320, 5)).view(40, 256)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        codes, scales = altgrad.quant.quantize_blocks(x.to(dtype), "mxfp4")
        assert codes.shape == (40, 128) and scales.shape == (40, 8)
        with np.errstate(all="ignore"):
            check(codes, scales, x.to(dtype))
    turned = x.t().contiguous().t()
    assert torch.equal(altgrad.quant.quantize_blocks(turned, "mxfp4")[0], altgrad.quant.quantize_blocks(x, "mxfp4")[0])
    codes, scales = altgrad.quant.quantize_blocks(x.view(-1)[:33], "mxfp4,even")
    check(codes, scales, x.view(-1)[:33], "even")


def check_levels(state, numbers, largest):
    codes, levels, unit = mx.two_levels(numbers.detach().float().numpy().ravel(), np.float32(largest))
    np.testing.assert_array_equal(state["copy"].numpy().ravel(), codes)
    np.testing.assert_array_equal(state["copy_scale"].view(torch.uint8).numpy().ravel(), levels)
    assert state["copy_tensor_scale"] == unit


def test_nvfp4_follows_the_tensors_scale_by_a_step():
    given = made((64, 48), (3, 5, 16), (41,), (), (0, 64))
    optimizer = altgrad.optim.AdamW(given, lr=0.1, storage="copy=nvfp4")
    tops = [param.detach().abs().max().item() if param.numel() else 0 for param in given]
    for _ in range(3):
        optimizer.step()
        for param, top in zip(given, tops):
            if param.numel():
                check_levels(optimizer.state[param], param, top)
                assert optimizer.state[param]["copy_amax"] == param.detach().abs().max()
        tops = [param.detach().abs().max().item() if param.numel() else 0 for param in given]
    shapes = [(tuple(optimizer.state[p]["copy"].shape), tuple(optimizer.state[p]["copy_scale"].shape)) for p in given]
    assert shapes == [((64, 24), (64, 3)), ((3, 5, 8), (3, 5, 1)), ((21,), (3,)), ((), (1,)), ((0, 32), (0, 4))]
    assert optimizer.state[given[0]]["copy_scale"].dtype == torch.float8_e4m3fn


def test_nvfp4_when_the_first_step_is_skipped_and_in_files():
    weight, = made((8, 48))
    grad, weight.grad = weight.grad, torch.full_like(weight, torch.nan)
    scaler = altgrad.amp.GradScaler("cpu")
    optimizer = altgrad.optim.Lion([weight], storage="copy=nvfp4")
    scaler.scale(torch.ones(()))
    scaler.step(optimizer), scaler.update()
    check_levels(optimizer.state[weight], weight, weight.abs().max().item())
    other = torch.nn.Parameter(weight.detach().clone())
    resumed = altgrad.optim.Lion([other], storage="copy=nvfp4")
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for run in (optimizer, resumed, copy.deepcopy(resumed)):
        param, = run.param_groups[0]["params"]
        param.grad = grad.clone()
        run.step()
    for key, value in optimizer.state[weight].items():
        assert torch.equal(resumed.state[other][key].view(-1).view(torch.uint8), value.view(-1).view(torch.uint8)), key


@pytest.mark.parametrize("change, words", [
    (lambda s: s.pop("copy_tensor_scale"), "a state 'copy' without its 'copy_tensor_scale'"),
    (lambda s: s.pop("copy_amax"), "a state 'copy' without its 'copy_amax'"),
    (lambda s: s.update(copy_scale=s["copy_scale"].float()), "expected contiguous float8_e4m3fn of shape"),
    (lambda s: s.update(copy=s["copy"].repeat(1, 2)), "whose codes have shape")])
def test_nvfp4_whose_parts_do_not_go_together(change, words):
    weight, = made((8, 48))
    optimizer = altgrad.optim.AdamW([weight], storage="copy=nvfp4")
    optimizer.step()
    change(optimizer.state[weight])
    with pytest.raises((ValueError, TypeError), match=words):
        optimizer.step()


def test_words_of_nvfp4_that_make_no_sense():
    with pytest.raises(altgrad.Error, match="write copy=nvfp4 of a parameter"):
        altgrad.optim.FromRule("lion", storage="m=nvfp4")
    with pytest.raises(ValueError, match="names no blocks"):
        altgrad.quant.quantize_blocks(torch.ones(32), "nvfp4")
    weight, = made((8, 40))
    with pytest.raises(ValueError, match="rows of 40 elements, which is no multiple of the 16 in a block of its copy"):
        altgrad.optim.AdamW([weight], storage="copy=nvfp4").step()
