"""Copies in blocks of columns beside blocks of rows: what a step writes, files, and what is refused."""

import copy
import io

import numpy as np
import pytest
import torch

import altgrad

from copies import bytes_of, made, matrix_of, mx

KEYS = "copy", "copy_scale", "copy_columns", "copy_columns_scale"


def check(state, numbers, rule="rceil", form="ocp.e4m3fn"):
    matrix = matrix_of(numbers)
    for keys, expected in ((KEYS[:2], mx.encoded(matrix.ravel(), rule, form)), (KEYS[2:], mx.by_columns(matrix, rule, form))):
        for key, codes in zip(keys, expected):
            np.testing.assert_array_equal(bytes_of(state[key]), codes, err_msg=key)


@pytest.mark.parametrize("rule", mx.RULES)
def test_both_copies_are_the_parameter_quantised(rule):
    given = made((70, 96), (3, 5, 32), (40,), (), (0, 64), (8, 0), (1, 320))
    optimizer = altgrad.optim.AdamW(given, storage=f"copy=mxfp8,{rule},both", max_grad_norm=1.0)
    for _ in range(3):
        optimizer.step()
    for param in given:
        state = optimizer.state[param]
        assert state["copy_columns"].dtype == torch.float8_e4m3fn and state["copy_columns"].shape == param.shape
        assert state["copy_columns_scale"].dtype == torch.float8_e8m0fnu
        check(state, param, rule) if param.numel() else None
    shapes = [tuple(optimizer.state[param]["copy_columns_scale"].shape) for param in given]
    assert shapes == [(3, 96), (1, 32), (1, 40), (1, 1), (0, 64), (1, 0), (1, 320)]


def test_a_copy_is_of_the_master_and_beside_states_in_blocks():
    weight, = made((136, 64), dtype=torch.bfloat16)
    plain, = made((136, 64), dtype=torch.bfloat16)
    optimizer = altgrad.optim.AdamW([weight], storage="master=f32 copy=mxfp8e5m2,both m=mxfp8 v=ocp.e5m2:32")
    other = altgrad.optim.AdamW([plain], storage="master=f32 copy=mxfp8e5m2 m=mxfp8 v=ocp.e5m2:32")
    for _ in range(2):
        optimizer.step(), other.step()
    check(optimizer.state[weight], optimizer.state[weight]["master"], form="ocp.e5m2")
    assert torch.equal(weight, plain)
    for key, state in other.state[plain].items():
        np.testing.assert_array_equal(bytes_of(optimizer.state[weight][key]), bytes_of(state), err_msg=key)


@pytest.mark.parametrize("states", ["bnb8:256", "torchao4:128"])
def test_columns_beside_what_tiles_would_cut_and_add_up(states):
    """As the optimizer without columns: parameters, states and statistics; rows need not be whole blocks of states."""
    given, others = made((136, 96), (40, 128), (64,)), made((136, 96), (40, 128), (64,))
    ours, plain = [altgrad.optim.AdamW(params, storage=f"states={states} {copy}", statistics=True, max_grad_norm=0.5)
                   for params, copy in ((given, "copy=mxfp8,both"), (others, "copy=mxfp8"))]
    for _ in range(2):
        ours.step(), plain.step()
    for param, other in zip(given, others):
        assert torch.equal(param, other)
        check(ours.state[param], param)
        for key, state in plain.state[other].items():
            np.testing.assert_array_equal(bytes_of(ours.state[param][key]), bytes_of(state), err_msg=key)
    assert ours.statistics().summary() == plain.statistics().summary()


@pytest.mark.parametrize("dtype, storage", [(torch.float32, "grad=f32"), (torch.bfloat16, "param=bf16"),
                                            (torch.bfloat16, "master=f32 m=int8:32")])
def test_columns_beside_units_that_are_clipped(dtype, storage):
    """As without columns; units are of dimension 0, rows of the last one; the rounded parameter is not what is copied."""
    shapes = (70, 96), (3, 5, 32), (40,), (), (0, 64), (2, 3, 2, 4128), (300, 32)
    given, others = made(*shapes, dtype=dtype), made(*shapes, dtype=dtype)
    ours, plain = [altgrad.optim.AdamW(params, lr=0.1, storage=f"{storage} {copy}", max_grad_norm="agc-unit:0.01")
                   for params, copy in ((given, "copy=mxfp8,both"), (others, "copy=mxfp8"))]
    for _ in range(2):
        ours.step(), plain.step()
    for param, other in zip(given, others):
        state = ours.state[param]
        assert torch.equal(param, other)
        for key in ("copy", "copy_scale"):
            np.testing.assert_array_equal(bytes_of(state[key]), bytes_of(plain.state[other][key]))
        if param.numel() and (dtype == torch.float32 or "master" in state):
            check(state, state.get("master", param))
    if storage == "param=bf16":  # the copies are of what was rounded to the parameter
        state = ours.state[given[0]]
        decoded = state["copy_columns"].float() * state["copy_columns_scale"].float().repeat_interleave(32, 0)[:70]
        torch.testing.assert_close(decoded, given[0].float(), rtol=0.07, atol=0.01)


def test_both_are_there_when_the_first_step_is_skipped():
    given = made((40, 64), (33,), (), (5, 0))
    given[0].grad[0, 0] = torch.inf
    scaler = altgrad.amp.GradScaler("cpu")
    optimizer = altgrad.optim.AdamW(given, storage="copy=mxfp8,both")
    scaler.scale(torch.ones(()))
    scaler.step(optimizer), scaler.update()
    for param in given[:3]:
        check(optimizer.state[param], param)


def test_files_copies_and_two_groups():
    first, second = made((64, 64), (33, 32))
    optimizer = altgrad.optim.Lion([{"params": [first], "lr": 1e-2}, {"params": [second]}], storage="copy=mxfp8,both")
    optimizer.step()
    file = io.BytesIO()
    torch.save({"w": [first.detach(), second.detach()], "o": optimizer.state_dict()}, file)
    held = torch.load(io.BytesIO(file.getvalue()))
    others = [torch.nn.Parameter(w) for w in held["w"]]
    resumed = altgrad.optim.Lion([{"params": others[:1]}, {"params": others[1:]}], storage="copy=mxfp8,both")
    resumed.load_state_dict(held["o"])
    for run in (resumed, copy.deepcopy(resumed), optimizer):
        for group, grad in zip(run.param_groups, (first.grad, second.grad)):
            group["params"][0].grad = grad.clone()
        run.step()
        for group in run.param_groups:
            check(run.state[group["params"][0]], group["params"][0])
    for mine, theirs in zip(others, (first, second)):
        for key in KEYS:
            np.testing.assert_array_equal(bytes_of(resumed.state[mine][key]), bytes_of(optimizer.state[theirs][key]))


@pytest.mark.parametrize("storage, kept", [(None, set()), ("copy=mxfp8", {"copy", "copy_scale"}), ("copy=mxfp8,both", set(KEYS))])
def test_copies_of_a_file_that_nobody_would_write_are_left_out(storage, kept):
    first, other = made((64, 64), (64, 64))
    optimizer, resumed = altgrad.optim.AdamW([first], storage="copy=mxfp8,both"), altgrad.optim.AdamW([other], storage=storage)
    optimizer.step()
    resumed.load_state_dict(optimizer.state_dict())
    assert {key for key in resumed.state[other] if key.startswith("copy")} == kept
    resumed.step()
    assert set(KEYS) <= set(optimizer.state[first])


def test_numbers_that_are_none_spoil_their_row_and_column_alone():
    weight, = made((64, 64))
    weight.data[3, 40], weight.data[50, 7] = torch.nan, torch.inf
    optimizer = altgrad.optim.SGD([weight], lr=0.0, storage="copy=mxfp8,both")
    optimizer.step()
    state = optimizer.state[weight]
    with np.errstate(all="ignore"):
        check(state, weight)
    decoded = state["copy_columns"].float() * state["copy_columns_scale"].float().repeat_interleave(32, 0)
    assert decoded[:32, 40].isnan().all() and not decoded[32:, 40].isnan().any() and not decoded[:, 41].isnan().any()


@pytest.mark.parametrize("change, words", [
    (lambda s: s.pop("copy_columns_scale"), "a state 'copy_columns' without its 'copy_columns_scale'"),
    (lambda s: s.pop("copy_columns"), "a state 'copy_columns_scale' without its 'copy_columns'"),
    (lambda s: s.update(copy_columns=s["copy_columns"].to(torch.float8_e5m2)), "is torch.float8_e5m2, but storage says copy="),
    (lambda s: s.update(copy_columns=s["copy_columns"].t().contiguous().t()), "give the parameter the memory format"),
    (lambda s: s.update(copy_columns_scale=torch.ones(2, 64)), r"expected contiguous float8_e8m0fnu of shape \(2, 64\)"),
    (lambda s: s.update(copy_columns_scale=s["copy_columns_scale"].view(64, 2)), r"of shape \(2, 64\)")])
def test_columns_that_do_not_go_with_their_parameter(change, words):
    weight, = made((40, 64))
    optimizer = altgrad.optim.AdamW([weight], storage="copy=mxfp8,both")
    optimizer.step()
    change(optimizer.state[weight])
    before = weight.detach().clone()
    with pytest.raises((ValueError, TypeError), match=words):
        optimizer.step()
    assert torch.equal(weight, before)


def test_words_and_places_that_have_no_columns():
    for word, words in (("copy=mxfp8,both,both", "says twice 'both'"), ("m=mxfp8,both", "says 'both', which is of a copy"),
                        ("copy=ocp.e4m3fn:64:ocp.e8m0,both", "in blocks of 32"), ("copy=ocp.e4m3fn:32,both", "in blocks of 32"),
                        ("copy=bf16:32:ocp.e8m0,both", "wider than a byte"), ("copy=mxfp8,both,stochastic", "not rounded by draws")):
        with pytest.raises(altgrad.Error, match=words):
            altgrad.optim.FromRule("adamw", storage=word)
    with pytest.raises(ValueError, match="rows of 48 elements"):
        altgrad.optim.AdamW(made((64, 48)), storage="copy=mxfp8,both").step()
    with pytest.raises(ValueError, match=r"quantize x.t\(\).contiguous\(\)"):
        altgrad.quant.quantize_blocks(torch.ones(32, 32), "mxfp8,both")


def test_torchao_has_the_same_columns():
    """Its rule for scales differs in RCEIL; FLOOR is OCP's."""
    to_mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor").to_mx
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    weight, = made((128, 96))
    optimizer = altgrad.optim.AdamW([weight], storage="copy=mxfp8,floor,both")
    optimizer.step()
    state = optimizer.state[weight]
    scales, codes = to_mx(weight.detach().t().contiguous(), torch.float8_e4m3fn, 32, ScaleCalculationMode.FLOOR)
    np.testing.assert_array_equal(bytes_of(state["copy_columns"].t().contiguous()), bytes_of(codes))
    np.testing.assert_array_equal(bytes_of(state["copy_columns_scale"].t().contiguous()), bytes_of(scales))
