"""Tensors that a rule only reads: from step(inputs=), or from the state of a parameter."""

import re

import numpy as np
import pytest
import torch

import altgrad

RULE = """altgrad.rule @damped(param %w: f32, grad %g: f32, input %h: f32, state %m: f32, hyper %lr: f64 = 0.1) {
  %m1 = addf %m, %g : f32
  %one = constant 1.0 : f32
  %size = math.absf %h : f32
  %bound = maximumf %size, %one : f32
  %u = divf %m1, %bound : f32
  %r = truncf %lr : f64 to f32
  %dw = mulf %r, %u : f32
  %w1 = subf %w, %dw : f32
  altgrad.yield param(%w1) state(%m1)
}
"""
SHAPES = (5, 7), (9001,), ()


def made(**settings):
    draws = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape, generator=draws)) for shape in SHAPES]
    return params, altgrad.optim.FromRule(RULE)(params, **settings), draws


def give(params, draws, dtype=torch.float32):
    for p in params:
        p.grad = torch.randn(p.shape, generator=draws)
    return [torch.randn(p.shape, generator=draws).mul(3).to(dtype) for p in params]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("how", ["list", "dict", "state"])
def test_a_step_reads_them(how, dtype):
    params, optimizer, draws = made()
    sums, twins = [np.float32(0)] * 3, [p.detach().numpy().copy() for p in params]
    for _ in range(4):
        inputs = give(params, draws, dtype)
        if how == "state":
            for p, h in zip(params, inputs):
                optimizer.state[p]["h"] = h
            optimizer.step()
        else:
            optimizer.step(inputs={"h": inputs if how == "list" else dict(zip(params, inputs))})
        for i, (p, h) in enumerate(zip(params, inputs)):
            sums[i] = sums[i] + p.grad.numpy()
            twins[i] = twins[i] - np.float32(0.1) * (sums[i] / np.maximum(np.abs(h.float().numpy()), np.float32(1)))
    for p, twin in zip(params, twins):
        assert np.array_equal(p.detach().numpy(), twin)
        assert ("h" in optimizer.state[p]) == (how == "state")


def test_strides_and_parameters_without_a_gradient():
    draws = torch.Generator().manual_seed(1)
    params = [torch.nn.Parameter(torch.randn(6, 4, generator=draws)) for _ in range(3)]
    optimizer = altgrad.optim.FromRule(RULE)(params)
    inputs = [torch.randn(4, 6, generator=draws).t().mul(3), None, torch.randn(6, 8, generator=draws)[:, ::2]]
    params[0].grad, params[2].grad = (torch.randn(6, 4, generator=draws) for _ in range(2))
    before = [p.detach().clone() for p in params]
    optimizer.step(inputs={"h": inputs})
    for p, h, w in zip(params, inputs, before):
        assert torch.equal(p, w if h is None else w - torch.tensor(0.1) * (p.grad / h.abs().clamp(min=1)))


def test_a_skipped_step_and_the_same_tensors_again():
    params, optimizer, draws = made()
    scaler = altgrad.amp.GradScaler("cpu", init_scale=1.0)
    inputs = give(params, draws)
    for bad in (False, True, False):
        params[0].grad[0, 0] = float("nan") if bad else 1.0
        before = [p.detach().clone() for p in params]
        scaler.scale(torch.ones(())), scaler.step(optimizer, inputs={"h": inputs}), scaler.update()
        assert all(map(torch.equal, before, params)) == bad


@pytest.mark.parametrize("inputs, kind, words", [
    (None, ValueError, "its rule reads 'h': call step(inputs={'h': [...]}) with a tensor for each parameter"),
    ({}, ValueError, "its rule reads 'h'"),
    ({"k": []}, ValueError, "its rule has no input 'k'; it has 'h'"),
    ({"h": [torch.zeros(5, 7)]}, ValueError, "input 'h' has 1 tensors for 3 parameters"),
    ({"h": [torch.zeros(7, 5), torch.zeros(9001), torch.zeros(())]}, ValueError, "has shape (7, 5), expected (5, 7)"),
    ({"h": [torch.zeros(5, 7), torch.zeros(9001), 3.0]}, TypeError, "is float, expected a tensor"),
    ({"h": [torch.zeros(5, 7), torch.zeros(9001, dtype=torch.int32), torch.zeros(())]}, TypeError, "torch.int32"),
    ({"h": 1.0}, TypeError, "input 'h' is float, expected a list"),
    ([torch.zeros(5, 7)], TypeError, "inputs is list, expected a dict from names to tensors")])
def test_what_is_wrong_is_said_before_anything_changes(inputs, kind, words):
    params, optimizer, draws = made()
    give(params, draws)
    before = [p.detach().clone() for p in params]
    with pytest.raises(kind, match=re.escape(words)):
        optimizer.step(inputs=inputs)
    assert all(map(torch.equal, before, params)) and not any("m" in optimizer.state.get(p, {}) for p in params)


def test_a_class_without_inputs_says_so():
    param = torch.nn.Parameter(torch.randn(3))
    param.grad = torch.randn(3)
    with pytest.raises(ValueError, match="its rule has no input 'h'; it has none"):
        altgrad.optim.AdamW([param]).step(inputs={"h": [torch.randn(3)]})
