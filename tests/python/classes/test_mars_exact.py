"""MARS with is_approx=False: the gradient of the weights before is told, beside the authors' formula in float64."""

import pytest
import torch
import twins

import altgrad

SHAPES = (12, 7), (5, 9), (6,)


@pytest.mark.parametrize("words", [{}, dict(optimize_1d=True, gamma=0.3), dict(maximize=True, storage="last_grad=bf16 previous_grad=bf16")], ids=str)
def test_it_compares_with_the_gradient_that_it_was_told(words):
    params, = twins.make(SHAPES, count=1)
    optimizer = altgrad.optim.MARS(params, lr=0.01, is_approx=False, **words)
    theirs, last = [param.detach().double() for param in params], [0.0] * len(params)
    m, v, gamma, sign = [0.0] * len(params), [0.0] * len(params), words.get("gamma", 0.025), -1.0 if words.get("maximize") else 1.0
    for step in range(1, 9):
        twins.give_grads(params)
        optimizer.step()
        for place, param in enumerate(params):
            g, matrix = sign * param.grad.double(), param.dim() == 2 or words.get("optimize_1d")
            b1, b2, decay = (0.95, 0.99, 0.0) if matrix else (0.9, 0.95, 0.1)
            c = g + gamma * 0.95 / 0.05 * (g - last[place]) if matrix else g
            c = c / max(1.0, float(c.norm())) if matrix else c
            m[place], v[place] = b1 * m[place] + (1 - b1) * c, b2 * v[place] + (1 - b2) * c * c
            u = m[place] / (1 - b1 ** step) / ((v[place] / (1 - b2 ** step)).sqrt() + 1e-8)
            theirs[place] = theirs[place] - (0.01 if matrix else 3e-3) * (decay * theirs[place] + u)
        twins.give_grads(params)  # of these weights on the next batch
        optimizer.update_previous_grad()
        optimizer.update_last_grad()
        narrow = (lambda x: x.bfloat16()) if "storage" in words else (lambda x: x)
        last = [sign * narrow(param.grad).double() for param in params]
    for param, other in zip(params, theirs):
        torch.testing.assert_close(param.double(), other, atol=3e-6, rtol=0)
    assert {*optimizer.state[params[0]]} == {"step", "exp_avg", "exp_avg_sq", "last_grad", "previous_grad"}


def test_an_approximation_is_told_nothing():
    params, = twins.make(SHAPES, count=1)
    optimizer = altgrad.optim.MARS([dict(params=params[:1], is_approx=False), dict(params=params[1:])])
    twins.step([optimizer], [params])
    optimizer.update_previous_grad(), optimizer.update_last_grad()
    assert "previous_grad" in optimizer.state[params[0]] and "previous_grad" not in optimizer.state[params[1]]
