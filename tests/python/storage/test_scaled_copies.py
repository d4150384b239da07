"""Copies of parameters in blocks with scales: what a step writes, files, and what is refused."""

import copy

import numpy as np
import pytest
import torch
import twins

import altgrad

from copies import bytes_of, made, mx



def check(state, numbers, rule="rceil", form="ocp.e4m3fn"):
    codes, scales = mx.encoded(numbers.detach().float().numpy().ravel(), rule, form)
    np.testing.assert_array_equal(bytes_of(state["copy"]), codes)
    np.testing.assert_array_equal(bytes_of(state["copy_scale"]), scales)


@pytest.mark.parametrize("rule", mx.RULES)
def test_copies_of_small_and_large_parameters_are_theirs_quantised(rule):
    given = made((64, 96), (3, 5, 32), (40,), (), (0, 64))
    optimizer = altgrad.optim.AdamW(given, storage=f"copy=mxfp8,{rule}", max_grad_norm=1.0)
    for _ in range(3):
        optimizer.step()
    for param in given:
        state = optimizer.state[param]
        assert state["copy"].dtype == torch.float8_e4m3fn and state["copy"].shape == param.shape
        assert state["copy_scale"].dtype == torch.float8_e8m0fnu
        check(state, param, rule) if param.numel() else None
    shapes = [tuple(optimizer.state[param]["copy_scale"].shape) for param in given]
    assert shapes == [(64, 3), (3, 5, 1), (2,), (1,), (0, 2)]


def test_a_copy_is_of_the_master_and_beside_states_in_blocks():
    weight, = made((128, 64), dtype=torch.bfloat16)
    optimizer = altgrad.optim.AdamW([weight], storage="master=f32 copy=mxfp8e5m2 m=mxfp8 v=ocp.e5m2:32")
    optimizer.step()
    state = optimizer.state[weight]
    check(state, state["master"], form="ocp.e5m2")
    assert state["exp_avg_scale"].dtype == torch.float8_e8m0fnu and state["exp_avg_scale"].shape == (256,)
    assert state["exp_avg_sq_scale"].dtype == torch.float32


def test_a_copy_is_there_when_the_first_step_is_skipped():
    weight, = made((8, 64))
    weight.grad[0, 0] = torch.inf
    scaler = altgrad.amp.GradScaler("cpu")
    optimizer = altgrad.optim.AdamW([weight], storage="copy=mxfp8")
    scaler.scale(torch.ones(()))
    scaler.step(optimizer), scaler.update()
    check(optimizer.state[weight], weight)


@pytest.mark.parametrize("word", ["mxfp8,stochastic", "mxfp8,even,stochastic,saturate", "ocp.e4m3fn,stochastic,delayed"])
def test_a_copy_rounded_by_draws_is_near(word):
    weight, = made((64, 96))
    optimizer = altgrad.optim.AdamW([weight], storage=f"copy={word}", seed=1)
    optimizer.step()
    state = optimizer.state[weight]
    scale = state["copy_scale"].float()
    scale = scale.repeat_interleave(32, -1) if scale.dim() else scale
    assert ((state["copy"].float() * scale - weight.detach()).abs() <= torch.maximum(weight.detach().abs() / 8, scale / 512)).all()
    if scale.dim():
        np.testing.assert_array_equal(bytes_of(state["copy_scale"]), mx.encoded(
            weight.detach().numpy().ravel(), "even" if "even" in word else "rceil", "ocp.e4m3fn")[1])


def test_files_and_copies_of_the_optimizer():
    weight, = made((64, 64))
    runs = twins.beside_a_file(weight, lambda params: altgrad.optim.Lion(params, storage="copy=mxfp8 m=mxfp8,even"))
    for run in runs:
        param, = run.param_groups[0]["params"]
        run.step()
        check(run.state[param], param)
    (ours,), (resumed,), _ = [run.state.values() for run in runs]
    for key in ("copy", "copy_scale", "exp_avg", "exp_avg_scale"):
        np.testing.assert_array_equal(bytes_of(resumed[key]), bytes_of(ours[key]))


@pytest.mark.parametrize("shape, stride, words", [
    ((32, 48), None, "rows of 48 elements, which is no multiple of the 32 in a block of its copy"),
    ((64, 32), (1, 64), "make it contiguous"),
    ((4, 32, 2, 2), (128, 1, 64, 32), "rows of 2 elements")])
def test_rows_that_blocks_would_straddle_are_refused(shape, stride, words):
    weight = torch.nn.Parameter(torch.randn(shape) if stride is None else torch.empty_strided(shape, stride).fill_(1))
    optimizer = altgrad.optim.AdamW([weight], storage="copy=mxfp8")
    weight.grad = torch.ones_like(weight)
    before = weight.detach().clone()
    with pytest.raises((ValueError, TypeError), match=words):
        optimizer.step()
    assert torch.equal(weight, before) and not optimizer.state


def test_formats_and_words_that_no_copy_has():
    weight, = made((8, 64))
    for make in (lambda: altgrad.optim.FromRule("lion", storage="copy=mxfp6e3m2"),
                 lambda: altgrad.optim.AdamW([weight], storage="copy=mxfp6e3m2").step(),
                 lambda: altgrad.optim.AdamW([weight], storage="copy=int8,delayed").step()):
        with pytest.raises(ValueError, match="copy=(ocp.e3m2|int8), for which torch has no dtype"):
            make()
    for word, words in (("copy=mxfp5", "unknown format 'mxfp5'"), ("copy=mxfp8,up", "says 'up'"),
                        ("param=mxfp8", "only states and copies"), ("copy=mxfp8 m=ocp.e4m3fn:48", "blocks of '48'"),
                        ("copy=ocp.e4m3fn:32:ocp.e5m2", "scales are in f32, f16 or ocp.e8m0")):
        with pytest.raises(altgrad.Error, match=words):
            altgrad.optim.FromRule("adamw", storage=word)


@pytest.mark.parametrize("change, words", [
    (lambda s: s.pop("copy_scale"), "a state 'copy' without its 'copy_scale'"),
    (lambda s: s.update(copy_scale=torch.ones(8, 2)), r"expected contiguous float8_e8m0fnu of shape \(8, 2\)"),
    (lambda s: s.update(copy_scale=s["copy_scale"].view(16)), r"expected contiguous float8_e8m0fnu of shape \(8, 2\)")])
def test_scales_that_do_not_go_with_their_copy(change, words):
    weight, = made((8, 64))
    optimizer = altgrad.optim.AdamW([weight], storage="copy=mxfp8")
    optimizer.step()
    change(optimizer.state[weight])
    with pytest.raises((ValueError, TypeError), match=words):
        optimizer.step()


def test_quantize_blocks_is_what_a_step_writes():
    x = torch.from_numpy(mx.numbers_of_all_kinds(320, 5)).view(40, 256)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        codes, scales = altgrad.quant.quantize_blocks(x.to(dtype))
        with np.errstate(all="ignore"):
            check({"copy": codes, "copy_scale": scales}, x.to(dtype))
        assert scales.shape == (40, 8)
    turned = x.t().contiguous().t()
    np.testing.assert_array_equal(bytes_of(altgrad.quant.quantize_blocks(turned)[0]), bytes_of(altgrad.quant.quantize_blocks(x)[0]))
    codes, scales = altgrad.quant.quantize_blocks(torch.ones(4, 128), "ocp.e4m3fn:128")
    assert scales.dtype == torch.float32 and torch.equal(codes.float() * scales, torch.ones(4, 128))
    with pytest.raises(ValueError, match="rows of 40 elements"):
        altgrad.quant.quantize_blocks(torch.ones(3, 40))
    for word in ("ocp.e4m3fn", "mxfp8 m=bf16", 7, "", "ocp.e4m3fn:32\n--emit=ptx"):
        with pytest.raises(ValueError, match="names no blocks"):
            altgrad.quant.quantize_blocks(torch.ones(32), word)
    with pytest.raises(ValueError, match="rounds stochastically, which needs the seed"):
        altgrad.quant.quantize_blocks(torch.ones(32), "mxfp8,stochastic")
    with pytest.raises(TypeError, match="a tensor of torch.float64 was given"):
        altgrad.quant.quantize_blocks(torch.ones(32, dtype=torch.float64))
    with pytest.raises(altgrad.Error, match="blocks of '48' elements"):
        altgrad.quant.quantize_blocks(torch.ones(48), "ocp.e4m3fn:48:ocp.e8m0")


def test_torchao_decodes_what_a_step_writes():
    mx_tensor = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor")
    weight, = made((64, 96))
    optimizer = altgrad.optim.AdamW([weight], storage="copy=mxfp8")
    optimizer.step()
    state = optimizer.state[weight]
    got = mx_tensor.to_dtype(state["copy"], state["copy_scale"], torch.float8_e4m3fn, 32, torch.float32)
    exact = state["copy"].float().view(64, 3, 32) * state["copy_scale"].float()[..., None]
    assert torch.equal(got.view(64, 3, 32), exact)
    torch.testing.assert_close(got, weight.detach(), rtol=2**-4, atol=2**-12)


@pytest.mark.parametrize("word", ["ocp.e4m3fn,delayed", "ocp.e5m2,delayed,pow2"])
def test_one_scale_for_a_parameter_follows_by_a_step(word):
    given = made((64, 50), (7,), (), (0, 3))
    optimizer = altgrad.optim.AdamW(given, lr=0.1, storage=f"copy={word}")
    dtype = torch.float8_e4m3fn if "e4m3" in word else torch.float8_e5m2
    top, before = torch.finfo(dtype).max, [param.detach().clone() for param in given]
    for _ in range(3):
        optimizer.step()
        for param, old in zip(given, before):
            state = optimizer.state[param]
            if not param.numel():
                assert state["copy_scale"] == 1
                continue
            scale = torch.full((), top) / old.abs().max()
            if "pow2" in word:
                scale = 2 ** torch.floor(torch.log2(scale.double())).float()
            codes = (param.detach() * scale).clamp(-top, top).to(dtype)
            np.testing.assert_array_equal(bytes_of(state["copy"]), bytes_of(codes))
            assert torch.equal(state["copy_scale"], 1 / scale) and torch.equal(state["copy_amax"], param.detach().abs().max())
        before = [param.detach().clone() for param in given]


def test_one_scale_when_the_first_step_is_skipped_and_in_files():
    weight, = made((8, 30))
    grad, weight.grad = weight.grad, torch.full_like(weight, torch.nan)
    scaler = altgrad.amp.GradScaler("cpu")
    optimizer = altgrad.optim.Lion([weight], storage="copy=ocp.e4m3fn,delayed")
    scaler.scale(torch.ones(()))
    scaler.step(optimizer), scaler.update()
    state = optimizer.state[weight]
    torch.testing.assert_close(state["copy"].float() * state["copy_scale"], weight.detach(), rtol=2**-4, atol=2**-9)
    assert state["copy_amax"] == weight.abs().max()
    other = torch.nn.Parameter(weight.detach().clone())
    resumed = altgrad.optim.Lion([other], storage="copy=ocp.e4m3fn,delayed")
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for run in (optimizer, resumed, copy.deepcopy(resumed)):
        param, = run.param_groups[0]["params"]
        param.grad = grad.clone()
        run.step()
    assert torch.equal(resumed.state[other]["copy_scale"], state["copy_scale"])
    assert torch.equal(resumed.state[other]["copy_amax"], weight.detach().abs().max())
    np.testing.assert_array_equal(bytes_of(resumed.state[other]["copy"]), bytes_of(state["copy"]))


@pytest.mark.parametrize("change, words", [
    (lambda s: s.pop("copy_amax"), "a state 'copy' without its 'copy_amax'"),
    (lambda s: s.update(copy_amax=torch.ones(1)), r"'copy_amax' is .* expected contiguous float32 of shape \(\)"),
    (lambda s: s.update(copy=s["copy"].to(torch.float8_e5m2)), "is torch.float8_e5m2, but storage says copy="),
    (lambda s: s.update(copy_scale=torch.ones((), dtype=torch.float64)), "expected contiguous float32")])
def test_numbers_that_do_not_go_with_their_copy(change, words):
    weight, = made((8, 30))
    optimizer = altgrad.optim.AdamW([weight], storage="copy=ocp.e4m3fn,delayed")
    optimizer.step()
    change(optimizer.state[weight])
    with pytest.raises((ValueError, TypeError), match=words):
        optimizer.step()


def scale_of(largest, top=448.0):
    return torch.full((), top) / largest


def encoded(param, scale):
    return (param.detach() * scale).clamp(-448, 448).to(torch.float8_e4m3fn)


def test_a_current_scale_is_that_of_this_step():
    given = made((64, 50), (7,), (), (0, 3))
    optimizer = altgrad.optim.AdamW(given, lr=0.1, storage="copy=ocp.e4m3fn,current")
    for _ in range(3):
        optimizer.step()
        for param in given:
            state = optimizer.state[param]
            assert "copy_amax" not in state
            scale = scale_of(param.detach().abs().max()) if param.numel() else torch.ones(())
            assert torch.equal(state["copy_scale"], 1 / scale)
            np.testing.assert_array_equal(bytes_of(state["copy"]), bytes_of(encoded(param, scale)))


def test_a_scale_by_sixteen_steps_and_its_file():
    weight, = made((64, 50))
    other = torch.nn.Parameter(weight.detach().clone())
    optimizer, resumed = (altgrad.optim.SGD([p], lr=1.0, storage="copy=ocp.e4m3fn,delayed:16") for p in (weight, other))
    past = [weight.detach().abs().max()]
    for step in range(20):
        weight.grad = 0.1 * weight.detach()  # it shrinks, so the largest is the oldest
        optimizer.step()
        scale = scale_of(torch.stack(past[-16:]).max())
        state = optimizer.state[weight]
        assert torch.equal(state["copy_scale"], 1 / scale)
        np.testing.assert_array_equal(bytes_of(state["copy"]), bytes_of(encoded(weight, scale)))
        past.append(weight.detach().abs().max())
        if step == 9:
            optimizer, stopped = copy.deepcopy(optimizer), optimizer
            weight = optimizer.param_groups[0]["params"][0]
            resumed.load_state_dict(stopped.state_dict())
            other.data.copy_(weight.data)
    for _ in range(10):
        other.grad = 0.1 * other.detach()
        resumed.step()
    for key, value in optimizer.state[weight].items():
        assert torch.equal(resumed.state[other][key].reshape(-1).view(torch.uint8), value.reshape(-1).view(torch.uint8)), key
    assert [f"copy_amax_{step}" in optimizer.state[weight] for step in (1, 15, 16)] == [True, True, False]


@pytest.mark.parametrize("make", [altgrad.optim.Adam, altgrad.optim.AdamW])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_code_saturates_under_a_bounded_scale(make, dtype):
    """Gradients that grow tenfold take the parameter farthest; a scale by the step before would be passed."""
    weight = torch.nn.Parameter(torch.full((40, 8), 0.01, dtype=dtype))
    words = "master=f32 copy=ocp.e4m3fn,bounded" if dtype == torch.bfloat16 else "copy=ocp.e4m3fn,bounded"
    words += " states=f32"
    optimizer = make([weight], lr=0.5, weight_decay=0.0, storage=words)
    for step in range(12):
        weight.grad = torch.full_like(weight, -(10.0 ** (step - 6)))
        before = weight.detach().float().abs().max()
        optimizer.step()
        state = optimizer.state[weight]
        numbers = state.get("master", weight.detach())
        assert numbers.abs().max() <= state["copy_scale"] * 448
        np.testing.assert_array_equal(bytes_of(state["copy"]), bytes_of((numbers * (1 / state["copy_scale"])).to(torch.float8_e4m3fn)))
        assert state["copy_amax"] == numbers.abs().max()
        assert step > 2 or numbers.abs().max() > before


@pytest.mark.parametrize("word", ["current", "delayed:16", "bounded", "bounded,pow2"])
def test_a_copy_that_no_step_has_written_is_by_the_parameters_largest(word):
    for numbers in (torch.randn(8, 30), torch.zeros(5), torch.zeros(0), torch.tensor(3.0), torch.tensor([1.0, torch.inf])):
        weight = torch.nn.Parameter(numbers)
        weight.grad = torch.full_like(weight, torch.nan)
        scaler = altgrad.amp.GradScaler("cpu")
        optimizer = altgrad.optim.AdamW([weight], storage=f"copy=ocp.e4m3fn,{word}")
        scaler.scale(torch.ones(()))
        scaler.step(optimizer), scaler.update()
        state, most = optimizer.state[weight], numbers.abs().max() if numbers.numel() else torch.zeros(())
        scale = scale_of(most) if 0 < most < torch.inf else torch.ones(())
        if "pow2" in word:
            scale = 2 ** torch.floor(torch.log2(scale.double())).float()
        if numbers.numel():
            assert torch.equal(state["copy_scale"], 1 / scale)
            np.testing.assert_array_equal(bytes_of(state["copy"]), bytes_of(encoded(weight, scale)))
        assert word == "current" or torch.equal(state["copy_amax"], most)


@pytest.mark.parametrize("make, words, message", [
    (altgrad.optim.Lion, "copy=ocp.e4m3fn,bounded", "whose steps have no bound that is known"),
    (altgrad.optim.AdamW, "copy=ocp.e4m3fn,bounded m=bf16", "state 'm' in bf16; the bound is of states in f32"),
    (altgrad.optim.AdamW, "copy=ocp.e4m3fn,delayed:65", "looks back 1 to 64 steps"),
    (altgrad.optim.AdamW, "copy=ocp.e4m3fn,current,delayed", "says twice how its scale is found"),
    (altgrad.optim.AdamW, "copy=ocp.e4m3fn,bounded:3", "did you mean 'bounded'")])
def test_scales_that_there_are_not(make, words, message):
    weight, = made((8, 30))
    with pytest.raises((altgrad.Error, ValueError), match=message):
        make([weight], storage=words).step()
