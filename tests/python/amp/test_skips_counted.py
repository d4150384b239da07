"""Counts and statistics where steps are skipped, gradients come and go, and torch's class steps."""

import math

import pytest
import torch

import altgrad


def made(dtypes=(torch.float32,), **options):
    params = [torch.nn.Parameter(torch.ones(3, dtype=dtype)) for dtype in dtypes]
    return params, altgrad.optim.SGD(params, lr=0.1, statistics=True, fallback=True, **options)


@pytest.mark.parametrize("dtypes", [(torch.float32,), (torch.float64,), (torch.float32, torch.float64)])
@pytest.mark.parametrize("unscale", [False, True])
@pytest.mark.parametrize("kind", [torch.amp.GradScaler, altgrad.amp.GradScaler])
@pytest.mark.parametrize("bad", [math.inf, math.nan])
@pytest.mark.filterwarnings("ignore:altgrad")
def test_every_way_to_skip_is_counted(dtypes, unscale, kind, bad):
    params, optimizer = made(dtypes, fused_amp=True, max_grad_norm=1e-3)
    scaler = kind("cpu", 8.0)
    for step in range(4):
        scaler.scale(sum(p.sum().float() for p in params)).backward()
        if step in (0, 2):
            params[-1].grad[0] = bad
        if unscale:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    said = optimizer.statistics()
    assert said.skipped == optimizer.skipped_steps == 2
    assert said.steps == 4 and said.clipped_steps == 2


def test_what_no_step_has_said_is_nan():
    params, optimizer = made((torch.float32, torch.bfloat16))
    scaler = altgrad.amp.GradScaler("cpu", 8.0)
    for bad in (math.inf, 1.0):
        scaler.scale(sum(p.sum().float() for p in params)).backward()
        params[0].grad[0] *= bad
        scaler.step(optimizer)
        scaler.update()
        said = optimizer.statistics()
        assert said.param_norm.isnan().tolist() == said.update_norm.isnan().tolist() == [bad != 1.0] * 2
        assert said.lost.isnan().tolist() == [False, bad != 1.0] and not said.nonfinite.isnan().any()
        optimizer.zero_grad(set_to_none=False)


def test_a_parameter_that_has_left_is_left_out():
    params, optimizer = made((torch.float32, torch.bfloat16))
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    optimizer.param_groups[0]["params"] = params[1:]
    said = optimizer.statistics()
    assert said.grad_norm.tolist() == pytest.approx([3**0.5]) and len(said.table()["ratio"]) == 1


@pytest.mark.filterwarnings("ignore:altgrad")
@pytest.mark.parametrize("scale", [0.0, -0.0, math.inf, math.nan])
def test_a_scale_that_is_none_skips_torchs_part(scale):
    params, optimizer = made((torch.float64,))
    scaler = altgrad.amp.GradScaler("cpu", 8.0)
    scaler.scale(torch.ones(1))
    scaler.update(torch.tensor(scale))
    params[0].grad = torch.zeros_like(params[0])
    scaler.step(optimizer)
    assert params[0].tolist() == [1.0] * 3 and optimizer.skipped_steps == 1
