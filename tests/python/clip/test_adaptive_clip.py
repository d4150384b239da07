"""max_grad_norm="percentile:P" and "agc:F", against plain formulas; files, skipped steps, refusals."""

import copy
import io
import math
import os

import numpy as np
import pytest
import summed
import torch
import twins

import altgrad

on_the_cpu = pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="GPUs sum in the step")

SHAPES = [(7,), (16, 16), (5, 3)]


def clipped(params, factors):
    for param, factor in zip(params, factors):
        param.grad.mul_(factor)


def norms_of(tensors):
    """In f64: of the sums nobody says in which order they are."""
    return [tensor.double().norm().item() for tensor in tensors]


def percentile(history, percent):
    """bitsandbytes' percentile_clipping, of the norms that there are."""
    last = sorted(history[-100:])
    return last[min(int(percent * len(last) / 100), len(last) - 1)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_percentile_of_past_norms_bounds_the_next(dtype):
    params, others = twins.make(SHAPES, dtype)
    ours = altgrad.optim.SGD(params, lr=0.1, max_grad_norm="percentile:30")
    plain = altgrad.optim.SGD(others, lr=0.1)
    history = []
    for step in range(130):
        twins.give_grads(params, others, scale=math.exp(math.sin(step)))
        ours.step()
        norm = ours.grad_norm.item()
        assert norm == pytest.approx(math.hypot(*norms_of(p.grad for p in others)), rel=1e-5)
        history.append(norm)
        bound = np.float32(percentile(history, 30))
        factor = bound / np.float32(norm) if norm > bound else np.float32(1)
        for param in others:
            param.grad = param.grad.float() * torch.tensor(factor) if dtype == torch.float32 else param.grad
        if dtype == torch.float32:
            plain.step()
            assert all(map(torch.equal, params, others)), step
    kept = ours.param_groups[0]["norm_history"]
    assert kept[0] == 30 and sorted(kept[1:].tolist()) == sorted(history[-100:])


def saved(optimizer):
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def test_a_file_has_the_history_and_the_next_step_has_the_same_bits():
    params, others = twins.make(SHAPES)
    one = altgrad.optim.AdamW(params, max_grad_norm="percentile:50")
    for _ in range(7):
        twins.give_grads(params)
        one.step()
    with torch.no_grad():
        for mine, other in zip(params, others):
            other.copy_(mine)
    two = altgrad.optim.AdamW(others, max_grad_norm=1.0)
    two.load_state_dict(saved(one))
    assert two.max_grad_norm == "percentile:50"
    three = copy.deepcopy(two)
    for _ in range(3):
        twins.give_grads(params, others, three.param_groups[0]["params"], scale=3.0)
        for optimizer in (one, two, three):
            optimizer.step()
    for mine, other, third in zip(params, others, three.param_groups[0]["params"]):
        assert torch.equal(mine, other) and torch.equal(mine, third)
    histories = [of.param_groups[0]["norm_history"] for of in (one, two, three)]
    assert len({h.data_ptr() for h in histories}) == 3
    assert all(h.numpy().tobytes() == histories[0].numpy().tobytes() for h in histories)


def test_a_skipped_step_is_no_part_of_the_history():
    params, = twins.make(SHAPES, count=1)
    optimizer = altgrad.optim.AdamW(params, max_grad_norm="percentile:50")
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0)
    for step in range(3):
        twins.give_grads(params, scale=4.0)
        if step == 1:
            params[1].grad[0, 0] = math.inf
        scaler.scale(torch.zeros(()))
        scaler.step(optimizer), scaler.update()
    kept = optimizer.param_groups[0]["norm_history"]
    assert kept[0] == 2 and torch.isfinite(kept[1:3]).all() and kept[3:].isnan().all()


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Lion"])
def test_agc_bounds_each_gradient_by_its_parameter(name):
    """Brock et al. 2021, with the whole tensor as the unit, in f64; the first tensor is near 0."""
    params, others = twins.make(SHAPES)
    with torch.no_grad():
        params[0].mul_(1e-5), others[0].mul_(1e-5)
    ours = getattr(altgrad.optim, name)(params, lr=0.01, max_grad_norm="agc:0.1")
    plain = getattr(altgrad.optim, name)(others, lr=0.01)
    for step in range(5):
        twins.give_grads(params, others, scale=[10.0, 1e-3][step % 2])
        bounds = [0.1 * max(size, 1e-3) for size in norms_of(others)]
        grads = norms_of(p.grad for p in others)
        clipped(others, [b / max(g, 1e-6) if g > b else 1.0 for b, g in zip(bounds, grads)])
        ours.step(), plain.step()
        assert ours.grad_norm is None
        for mine, other in zip(params, others):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-7)


def test_statistics_count_the_steps_that_were_above_the_percentile():
    params, = twins.make([(4,)], count=1)
    optimizer = altgrad.optim.SGD(params, max_grad_norm="percentile:0", statistics=True)
    for size in (1.0, 2.0, 0.5, 3.0):
        params[0].grad = torch.full((4,), size)
        optimizer.step()
    assert optimizer.statistics().clipped_steps == 2  # 2 and 3; to the least so far


@pytest.mark.parametrize("bound", ["agc", "agc:-1", "percentile:101", "percentile:x", "zclip:1", "1.0", "norm:1"])
def test_what_is_no_bound_is_refused(bound):
    params, = twins.make([(4,)], count=1)
    with pytest.raises(ValueError, match="Invalid max_grad_norm value: " + bound):
        altgrad.optim.SGD(params, max_grad_norm=bound)


def test_kinds_of_bounds_change_between_steps_and_a_foreign_history_is_refused():
    params, = twins.make([(4,)], count=1)
    optimizer = altgrad.optim.SGD(params, max_grad_norm=1.0)
    for bound in (1.0, "percentile:5", "agc:0.01", "percentile:10", None):
        optimizer.max_grad_norm = bound
        twins.give_grads(params)
        optimizer.step()
    assert optimizer.param_groups[0]["norm_history"][0] == 2
    optimizer.max_grad_norm = "percentile:5"
    optimizer.param_groups[0]["norm_history"] = torch.zeros(100)
    with pytest.raises(ValueError, match="norm_history of the first param_group is no tensor of 101"):
        optimizer.step()


def test_torchs_part_of_a_step_has_no_adaptive_bound():
    params = [torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3, dtype=torch.float64))]
    optimizer = altgrad.optim.SGD(params, max_grad_norm="agc:0.1")
    twins.give_grads(params[:1]), twins.give_grads(params[1:])
    with pytest.raises(RuntimeError, match="max_grad_norm is 'agc' and parameter 1 of group 0 is torch.float64, so torch's class steps it"):
        optimizer.step()


def test_ranks_have_no_adaptive_bound(monkeypatch):
    params, = twins.make([(4,)], count=1)
    optimizer = altgrad.optim.SGD(params, max_grad_norm="percentile:5")
    monkeypatch.setattr(optimizer, "_ranks", object())
    twins.give_grads(params)
    with pytest.raises(RuntimeError, match="max_grad_norm is 'percentile' and there is a process_group"):
        optimizer.step()


@on_the_cpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("more", [dict(max_grad_norm="percentile:30"), dict(numerics="torch")], ids=str)
def test_the_norm_may_be_summed_in_backward(more, dtype, monkeypatch):
    monkeypatch.setattr(altgrad._binding.early_norm, "hook_bytes", lambda: 0)
    pair = summed.ready(dtype=dtype, **more)
    for _ in range(3):
        pair.backward()
        assert pair.step() == (4, 0)
