"""Copies in blocks of 128 x 128: what a step writes, what it begins with, files, and what is refused."""

import copy
import io

import numpy as np
import pytest
import torch

import altgrad

from copies import bytes_of, made, matrix_of, mx

PLAIN = "copy=ocp.e4m3fn:128x128"
WORDS = {"": torch.float32, ",pow2": torch.float32, ":ocp.e8m0,floor": torch.float8_e8m0fnu}


def check(state, numbers, words="", form="ocp.e4m3fn"):
    matrix = matrix_of(numbers)
    with np.errstate(all="ignore"):
        codes, scales = mx.by_squares(matrix, form, "floor" if "e8m0" in words else None, "pow2" in words)
    np.testing.assert_array_equal(bytes_of(state["copy"]), codes)
    np.testing.assert_array_equal(bytes_of(state["copy_scale"]), scales.view(np.uint8))


@pytest.mark.parametrize("words, dtype", WORDS.items())
def test_a_copy_is_the_parameter_quantised(words, dtype):
    given = made((130, 260), (3, 50, 200), (2, 3, 50, 7), (300,), (), (0, 64), (8, 0), (0,), (1, 320))
    optimizer = altgrad.optim.AdamW(given, storage=PLAIN + words, max_grad_norm=1.0)
    for _ in range(3):
        optimizer.step()
    for param in given:
        state = optimizer.state[param]
        assert state["copy"].dtype == torch.float8_e4m3fn and state["copy"].shape == param.shape
        assert state["copy_scale"].dtype == dtype
        check(state, param, words) if param.numel() else None
    shapes = [tuple(optimizer.state[param]["copy_scale"].shape) for param in given]
    assert shapes == [(2, 3), (2, 2), (3, 1), (1, 3), (1, 1), (0, 1), (1, 0), (1, 0), (1, 3)]


def test_a_copy_is_of_the_master_and_beside_states_in_blocks():
    weight, = made((136, 256), dtype=torch.bfloat16)
    plain, = made((136, 256), dtype=torch.bfloat16)
    optimizer = altgrad.optim.AdamW([weight], storage="master=f32 copy=ocp.e5m2:128x128 m=mxfp8 v=ocp.e5m2:32")
    other = altgrad.optim.AdamW([plain], storage="master=f32 m=mxfp8 v=ocp.e5m2:32")
    for _ in range(2):
        optimizer.step(), other.step()
    check(optimizer.state[weight], optimizer.state[weight]["master"], form="ocp.e5m2")
    assert torch.equal(weight, plain)
    for key, state in other.state[plain].items():
        np.testing.assert_array_equal(bytes_of(optimizer.state[weight][key]), bytes_of(state), err_msg=key)


def test_squares_beside_units_that_are_clipped():
    """As without squares; units are of dimension 0 and of any length, squares of rows of the last one."""
    shapes = (130, 260), (3, 50, 200), (2, 3, 50, 7), (300,), (), (0, 64), (5, 9000)
    given, others = made(*shapes), made(*shapes)
    ours, plain = [altgrad.optim.AdamW(params, lr=0.1, storage=storage, max_grad_norm="agc-unit:0.01", statistics=True)
                   for params, storage in ((given, PLAIN), (others, None))]
    for _ in range(2):
        ours.step(), plain.step()
    for param, other in zip(given, others):
        assert torch.equal(param, other)
        check(ours.state[param], param) if param.numel() else None
    assert ours.statistics().summary() == plain.statistics().summary()


def test_a_new_parameter_of_nothing_that_differs_between_units():
    """What the tile's sweep computes again is of the tensor: a scalar, and the parameter that the step began with."""
    rule = altgrad.optim.FromRule("""altgrad.rule @fade(param %w: f32, grad %g: f32, hyper %lr: f64 = 1.0e-3) {
        %l = truncf %lr : f64 to f32
        %w1 = mulf %w, %l : f32
        altgrad.yield param(%w1) state() }""", storage=PLAIN)
    weight, = made((140, 150))
    before = weight.detach().clone()
    optimizer = rule([weight], lr=0.5, max_grad_norm="agc-unit:0.1")
    optimizer.step()
    assert torch.equal(weight, before * 0.5)
    check(optimizer.state[weight], weight)


@pytest.mark.parametrize("words", WORDS)
def test_it_is_there_when_the_first_step_is_skipped(words):
    given = made((140, 150), (2, 70, 130), (33,), (), (5, 0))
    given[0].grad[0, 0] = torch.inf
    scaler = altgrad.amp.GradScaler("cpu")
    optimizer = altgrad.optim.AdamW(given, storage=PLAIN + words)
    scaler.scale(torch.ones(()))
    scaler.step(optimizer), scaler.update()
    for param in given[:4]:
        check(optimizer.state[param], param, words)


def test_files_copies_and_two_groups():
    first, second = made((150, 140), (33, 32))
    optimizer = altgrad.optim.Lion([{"params": [first], "lr": 1e-2}, {"params": [second]}], storage=PLAIN)
    optimizer.step()
    file = io.BytesIO()
    torch.save({"w": [first.detach(), second.detach()], "o": optimizer.state_dict()}, file)
    held = torch.load(io.BytesIO(file.getvalue()))
    others = [torch.nn.Parameter(w) for w in held["w"]]
    resumed = altgrad.optim.Lion([{"params": others[:1]}, {"params": others[1:]}], storage=PLAIN)
    resumed.load_state_dict(held["o"])
    for run in (resumed, copy.deepcopy(resumed), optimizer):
        for group, grad in zip(run.param_groups, (first.grad, second.grad)):
            group["params"][0].grad = grad.clone()
        run.step()
        for group in run.param_groups:
            check(run.state[group["params"][0]], group["params"][0])
    for mine, theirs in zip(others, (first, second)):
        for key in ("copy", "copy_scale"):
            np.testing.assert_array_equal(bytes_of(resumed.state[mine][key]), bytes_of(optimizer.state[theirs][key]))


def test_two_sets_of_one_step():
    """Each dtype's tensors have tiles of their own."""
    wide, narrow = made((200, 192))[0], made((200, 192), dtype=torch.bfloat16)[0]
    optimizer = altgrad.optim.AdamW([wide, narrow], storage=PLAIN + " master=f32", max_grad_norm=1.0)
    optimizer.step()
    for param in (wide, narrow):
        check(optimizer.state[param], optimizer.state[param].get("master", param))


def test_numbers_that_are_none_spoil_no_other_block():
    weight, = made((256, 256))
    weight.data[3, 40], weight.data[200, 7] = torch.nan, torch.inf
    optimizer = altgrad.optim.SGD([weight], lr=0.0, storage=PLAIN)
    optimizer.step()
    state = optimizer.state[weight]
    check(state, weight)
    assert state["copy_scale"][:, 0].tolist() == [1, 1] and (state["copy_scale"][:, 1] < 0.1).all()
    assert state["copy"].float().isnan().sum() == 1 and state["copy"][200, 7] == 448


@pytest.mark.parametrize("change, words", [
    (lambda s: s.pop("copy_scale"), "a state 'copy' without its 'copy_scale'"),
    (lambda s: s.pop("copy"), "a state 'copy_scale' without its 'copy'"),
    (lambda s: s.update(copy=s["copy"].to(torch.float8_e5m2)), "is torch.float8_e5m2, but storage says copy="),
    (lambda s: s.update(copy=s["copy"].t().contiguous().t()), "give the parameter the memory format"),
    (lambda s: s.update(copy_scale=torch.ones(2, 1)), r"of shape \(2, 2\) on cpu, one for each 128 x 128 elements"),
    (lambda s: s.update(copy_scale=s["copy_scale"].double()), r"expected contiguous float32")])
def test_a_copy_that_does_not_go_with_its_parameter(change, words):
    weight, = made((140, 140))
    optimizer = altgrad.optim.AdamW([weight], storage=PLAIN)
    optimizer.step()
    change(optimizer.state[weight])
    before = weight.detach().clone()
    with pytest.raises((ValueError, TypeError), match=words):
        optimizer.step()
    assert torch.equal(weight, before)


def test_words_and_places_that_have_no_squares():
    for word, words in (("m=ocp.e4m3fn:128x128", "which are of a copy"), ("copy=bf16:128x128", "wider than a byte"),
                        (PLAIN + ",stochastic", "not rounded by draws"), (PLAIN + ",both", "says 'both'")):
        with pytest.raises(altgrad.Error, match=words):
            altgrad.optim.FromRule("adamw", storage=word)
    turned = torch.nn.Parameter(torch.ones(64, 32).t())
    turned.grad = torch.ones_like(turned)
    with pytest.raises(ValueError, match="make it contiguous"):
        altgrad.optim.AdamW([turned], storage=PLAIN).step()
    with pytest.raises(ValueError, match="rows of 48 elements, which is no multiple of the 32 in a block of its states"):
        altgrad.optim.AdamW(made((128, 48)), storage=PLAIN + " m=int8:32").step()


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("shape", [(130, 200), (3, 50, 7), (300,), (), (0, 5), (5, 0)])
def test_quantize_blocks_has_the_same(shape, words):
    x = torch.randn(shape)
    codes, scales = altgrad.quant.quantize_blocks(x, "ocp.e4m3fn:128x128" + words)
    check({"copy": codes, "copy_scale": scales}, x, words) if x.numel() else None
    rows, columns = (x.numel() // shape[-1] if shape and shape[-1] else 5 if shape else 1), shape[-1] if shape else 1
    assert codes.shape == x.shape and scales.shape == (-(-rows // 128), -(-columns // 128))
