"""States of 8 bits with a scale for each block: what is stored, files, and what is refused."""

import copy
import io

import numpy as np
import pytest
import torch

import altgrad
from altgrad._core import blocked_numel

FP8 = torch.float8_e4m3fn


def params(*shapes, dtype=torch.float32):
    made = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]
    return made


def give(given, seed):
    torch.manual_seed(seed)
    for param in given:
        param.grad = torch.randn_like(param)


def number(state, key):
    """What codes and scales stand for, in the order of a contiguous tensor."""
    codes = state[key].float().flatten()
    return codes * state[key + "_scale"].repeat_interleave(256)[:len(codes)]


def encoded(values, dtype):
    largest = torch.finfo(dtype).max
    padded = torch.nn.functional.pad(values, (0, -len(values) % 256)).view(-1, 256)
    scale = (padded.abs().amax(1) / largest).clamp(2.0**-120, 2.0**126)
    codes = (padded * (1 / scale)[:, None]).clamp(-largest, largest).to(dtype)
    return codes.flatten()[:len(values)], scale


def test_two_steps_against_torch_arithmetic():
    """The update is AdamW's on the decoded moments; what is stored are the new ones, encoded."""
    weight, = params((5000,))
    optimizer = altgrad.optim.AdamWFp8([weight], lr=0.1)
    plain = torch.nn.Parameter(weight.detach().clone())
    oracle = altgrad.optim.AdamW([plain], lr=0.1)
    for seed in range(3):
        give([weight], seed)
        plain.grad = weight.grad.clone()
        if seed:
            for key in ("exp_avg", "exp_avg_sq"):
                oracle.state[plain][key].copy_(number(optimizer.state[weight], key))
        optimizer.step()
        oracle.step()
        assert torch.equal(weight, plain)
        state = optimizer.state[weight]
        for key in ("exp_avg", "exp_avg_sq"):
            codes, scale = encoded(oracle.state[plain][key], state[key].dtype)
            assert torch.equal(state[key].view(torch.uint8), codes.view(torch.uint8))
            assert torch.equal(state[key + "_scale"], scale)


def test_bytes_of_the_states_and_small_tensors():
    large, small = params((64, 64), (blocked_numel() - 1,))
    optimizer = altgrad.optim.AdamWFp8([large, small])
    give([large, small], 0)
    optimizer.step()
    state = optimizer.state[large]
    assert state["exp_avg"].dtype == FP8 and state["exp_avg"].shape == (64, 64)
    assert state["exp_avg_scale"].shape == (16,) and state["exp_avg_scale"].dtype == torch.float32
    assert set(optimizer.state[small]) == {"step", "exp_avg", "exp_avg_sq"}
    assert optimizer.state[small]["exp_avg"].dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_exact_resume_from_a_file(dtype):
    first, second = params((70, 70), dtype=dtype), params((70, 70), dtype=dtype)
    second[0].data.copy_(first[0])
    runs = [altgrad.optim.LionFp8(first, lr=0.01), altgrad.optim.LionFp8(second, lr=0.01)]
    for seed in range(2):
        give(first, seed)
        runs[0].step()
    file = io.BytesIO()
    torch.save({"w": first, "o": runs[0].state_dict()}, file)
    file.seek(0)
    held = torch.load(file, weights_only=False)
    second[0].data.copy_(held["w"][0])
    runs[1].load_state_dict(held["o"])
    assert runs[1].state[second[0]]["exp_avg"].dtype == FP8
    other = copy.deepcopy(runs[0])
    for run in (*runs, other):
        given = run.param_groups[0]["params"]
        give(given, 7)
        run.step()
        assert torch.equal(given[0], first[0])
        assert torch.equal(run.state[given[0]]["exp_avg_scale"], runs[0].state[first[0]]["exp_avg_scale"])


def stepped():
    weight, = params((5000,))
    optimizer = altgrad.optim.AdamWFp8([weight])
    give([weight], 1)
    optimizer.step()
    return weight, optimizer


@pytest.mark.parametrize("change, words", [
    (lambda s: s.pop("exp_avg_scale"), "there is a state 'exp_avg' without its 'exp_avg_scale'"),
    (lambda s: s.pop("exp_avg"), "there is a state 'exp_avg_scale' without its 'exp_avg'"),
    (lambda s: s.update(exp_avg_scale=torch.ones(19)), r"shape \(19,\) on cpu; expected contiguous float32 of shape \(20,\)"),
    (lambda s: s.update(exp_avg_scale=torch.ones(20, dtype=torch.float64)), "is torch.float64 of shape"),
    (lambda s: s.update(exp_avg=torch.zeros(5000)), "is torch.float32, but storage says m=ocp.e4m3fn:256"),
    (lambda s: s.update(exp_avg=s["exp_avg"].to(torch.float8_e5m2)), "is torch.float8_e5m2, but storage says"),
])
def test_states_that_do_not_go_together(change, words):
    weight, optimizer = stepped()
    before = weight.detach().clone()
    change(optimizer.state[weight])
    with pytest.raises((ValueError, TypeError), match=words):
        optimizer.step()
    assert torch.equal(weight, before)


def test_blocks_follow_memory_and_another_order_is_refused():
    weight = torch.nn.Parameter(torch.randn(8, 16, 8, 8).to(memory_format=torch.channels_last))
    optimizer = altgrad.optim.LionFp8([weight])
    weight.grad = torch.randn_like(weight)
    optimizer.step()
    state = optimizer.state[weight]
    assert state["exp_avg"].stride() == weight.stride()
    exact = (weight.grad * 0.01).permute(0, 2, 3, 1).flatten()
    near = number({"exp_avg": state["exp_avg"].permute(0, 2, 3, 1), "exp_avg_scale": state["exp_avg_scale"]},
                  "exp_avg")
    np.testing.assert_allclose(near, exact, rtol=2**-4, atol=2e-5)
    weight.data = weight.data.contiguous()
    weight.grad = torch.randn_like(weight)
    with pytest.raises(ValueError, match="a block consists of neighbours in memory"):
        optimizer.step()


def test_a_rule_of_ones_own():
    Made = altgrad.optim.FromRule("adamw", storage="m=ocp.e5m2:64 v=bf16:64")
    weight, = params((70, 60))
    optimizer = Made([weight])
    give([weight], 2)
    optimizer.step()
    assert optimizer.state[weight]["m_scale"].shape == (66,)
    assert optimizer.state[weight]["v"].dtype == torch.bfloat16
    with pytest.raises(altgrad.Error, match="blocks of '7' elements, expected a power of two from 16 to 2048"):
        altgrad.optim.FromRule("adamw", storage="m=ocp.e5m2:7")


@pytest.mark.parametrize("storage, words", [
    ("", "keeps state 'exp_avg' of this parameter without scales"),
    ("states=ocp.e4m3fn v=ocp.e5m2", "keeps state 'exp_avg' of this parameter without scales"),
    ("v=ocp.e5m2:256", "keeps state 'exp_avg' of this parameter without scales"),
    ("v=ocp.e4m3fn:256", "state 'exp_avg_sq' is torch.float8_e5m2, but storage says v=ocp.e4m3fn:256")])
def test_codes_are_not_read_without_their_scales(storage, words):
    _, optimizer = stepped()
    weight, = params((5000,))
    loaded, older = altgrad.optim.AdamW([weight], storage=storage), optimizer.state_dict()
    del older["param_groups"][0]["storage"]  # which today's files have: test_described_files.py
    loaded.load_state_dict(older)
    before = weight.detach().clone()
    give([weight], 2)
    with pytest.raises((TypeError, ValueError), match=words):
        loaded.step()
    assert torch.equal(weight, before)


def in_inference_mode(make):
    with torch.inference_mode():
        return make()


@pytest.mark.parametrize("change, words", [
    (torch._neg_view, "expected contiguous float32"),
    (lambda s: torch._efficientzerotensor(len(s)), "expected contiguous float32"),
    (lambda s: in_inference_mode(s.clone), "Inplace update to inference tensor")])
def test_scales_that_kernels_cannot_write(change, words):
    weight, optimizer = stepped()
    state = optimizer.state[weight]
    state["exp_avg_scale"] = change(state["exp_avg_scale"])
    before = weight.detach().clone()
    give([weight], 2)
    with pytest.raises((ValueError, RuntimeError), match=words):
        optimizer.step()
    assert torch.equal(weight, before)


@pytest.mark.parametrize("dtype, storage, key", [
    (torch.float32, "sum=ocp.e4m3fn:256", "sum_scale"), (torch.float32, "states=altgrad.e5m2:128", "sum_scale"),
    (torch.float32, "sum=bf16", "sum"), (torch.bfloat16, "master=f32", "master")])
def test_adagrad_begins_with_what_its_storage_says(dtype, storage, key):
    weight, = params((5000,), dtype=dtype)
    plain = torch.nn.Parameter(weight.detach().clone())
    ours, other = altgrad.optim.Adagrad([weight], storage=storage), altgrad.optim.Adagrad([plain])
    give([weight], 0)
    plain.grad = weight.grad.clone()
    ours.step(), other.step()
    assert torch.equal(weight, plain) and key in ours.state[weight]
    if key != "master":
        assert ours.state[weight]["sum"].dtype != torch.float32


def test_adagrad_refuses_a_first_sum_that_blocks_do_not_begin_with():
    given = params((5000,), (50,))
    with pytest.raises(ValueError, match="a sum that is stored as ocp.e4m3fn:256 begins with 0"):
        altgrad.optim.Adagrad(given, storage="sum=ocp.e4m3fn:256", initial_accumulator_value=0.5)
    small = altgrad.optim.Adagrad(given[1:], storage="sum=ocp.e4m3fn:256", initial_accumulator_value=0.5)
    give(given, 0)
    small.step()
    torch.testing.assert_close(small.state[given[1]]["sum"], 0.5 + given[1].grad ** 2)
    small.add_param_group({"params": given[:1]})
    with pytest.raises(ValueError, match="begins with 0"):
        small.step()


def test_an_update_is_no_multiple_of_the_rate_where_a_block_has_small_gradients():
    weight = torch.nn.Parameter(torch.zeros(8192))
    sizes = 10 ** (-4 * torch.rand(8192))
    optimizer = altgrad.optim.AdamWFp8([weight], lr=1.0, weight_decay=0.0)
    for _ in range(20):
        before = weight.detach().clone()
        weight.grad = torch.randn(8192) * sizes
        optimizer.step()
        assert (weight - before).abs().max() < 10
