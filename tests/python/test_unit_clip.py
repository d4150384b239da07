"""max_grad_norm="agc-unit:F": the norm of each output's weights bounds that of its gradient."""

import copy
import math

import pytest
import torch
import twins

import altgrad

SHAPES = [(7,), (16, 20), (5, 3, 2, 2), (3, 5000), (), (1, 9), (0, 4), (4, 0), (6, 1)]


def clipped(param, factor, eps=1e-3):
    """timm's adaptive_clip_grad, in f64."""
    def norms(x):
        x = x.double()
        return x.norm() if x.dim() <= 1 else x.flatten(1).norm(dim=1).view(-1, *[1] * (x.dim() - 1))
    bound, norm = norms(param).clamp(min=eps) * factor, norms(param.grad)
    return torch.where(norm < bound, param.grad.double(), param.grad.double() * (bound / norm.clamp(min=1e-6)))


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Lion"])
def test_each_outputs_gradient_is_bounded_as_timms(name):
    params, others = twins.make(SHAPES)
    with torch.no_grad():
        params[1][3] *= 1e-5
        others[1][3] *= 1e-5
    ours = getattr(altgrad.optim, name)(params, lr=0.01, max_grad_norm="agc-unit:0.1")
    plain = getattr(altgrad.optim, name)(others, lr=0.01)
    for step in range(5):
        twins.give_grads(params, others, scale=[10.0, 0.05][step % 2])
        for other in others:
            other.grad = clipped(other, 0.1).float()
        ours.step(), plain.step()
        assert ours.grad_norm is None
        for mine, other in zip(params, others):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-7)
