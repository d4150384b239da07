"""Adafactor, CAME, SM3 and SinkGD beside their authors' formulas in float64, and Adafactor beside torch's."""

import copy

import pytest
import torch

import altgrad

SHAPES = [(5, 7), (64, 33), (100, 1), (33, 129), (17,), ()]


def made(kind, shapes=SHAPES, dtype=torch.float32, **words):
    """(parameters, their optimizer)."""
    draws = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape, generator=draws).to(dtype)) for shape in shapes]
    return params, kind(params, **words)


def factored(state, name, value, rate):
    """An average of a value over rows times one over columns, as a part of the mean; of a vector, that of each element."""
    r, c = state.get(f"{name}r", torch.zeros(len(value), 1)), state.get(f"{name}c", torch.zeros(1, value.shape[1]))
    r, c = r.double().lerp(value.mean(1, keepdim=True), rate), c.double().lerp(value.mean(0, keepdim=True), rate)
    state.update({f"{name}r": r, f"{name}c": c})
    return c if len(value) == 1 else r * c / r.mean()


def rms(x):
    return x.pow(2).mean().sqrt()


def came(state, w, g, lr=1e-3, betas=(0.9, 0.99, 0.999), clip_threshold=1.0, weight_decay=0.1):
    u = g / factored(state, "v", g * g + 1e-30, 1 - betas[1]).sqrt()
    u = u / max(1.0, rms(u) / clip_threshold)
    m = state["m"] = state.get("m", torch.zeros_like(g)).lerp(u, 1 - betas[0])
    s = factored(state, "s", (u - m) ** 2 + 1e-16, 1 - betas[2]).sqrt() if len(g) > 1 else 1.0
    return w * (1 - lr * weight_decay) - lr * m / s


def sm3(state, w, g, lr=0.1, momentum=0.9, beta=0.0):
    r, c = state.get("r", torch.zeros(len(g), 1)), state.get("c", torch.zeros(1, g.shape[1]))
    least = torch.minimum(r, c)
    v = beta * least + (1 - beta) * g * g if beta else least + g * g
    top = [v.amax(1, keepdim=True), v.amax(0, keepdim=True)]
    state["r"], state["c"] = [torch.maximum(a, b) for a, b in zip((r, c), top)] if beta else top
    b = state["b"] = state.get("b", torch.zeros_like(g)).lerp(g / (v + 1e-30).sqrt(), 1 - momentum)
    return w - lr * b


def sinkgd(state, w, g, lr=0.02, weight_decay=0.1):
    for _ in range(5):
        g = g / g.pow(2).mean(1, keepdim=True).sqrt()
        g = g / g.pow(2).mean(0, keepdim=True).sqrt()
    return w * (1 - lr * weight_decay) - lr * g


CASES = [("CAME", came, dict(betas=(0.9, 0.99, 0.999), weight_decay=0.1)), ("SM3", sm3, dict(momentum=0.9)),
         ("SM3", sm3, dict(momentum=0.0, beta=0.9)), ("SinkGD", sinkgd, dict(weight_decay=0.1))]


@pytest.mark.parametrize("name, step, words", CASES, ids=str)
def test_it_is_the_published_one(name, step, words):
    params, optimizer = made(getattr(altgrad.optim, name), **words)
    wholes, states = [param.detach().double().reshape(-1, param.shape[-1] if param.dim() else 1) for param in params], [{} for _ in params]
    for _ in range(40):
        for place, param in enumerate(params):
            param.grad = torch.randn(param.shape) * (place + 0.1)
            wholes[place] = step(states[place], wholes[place], param.grad.double().reshape(wholes[place].shape), **words)
        optimizer.step()
    for param, whole in zip(params, wholes):
        torch.testing.assert_close(param.detach().double(), whole.reshape(param.shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("words", [{}, dict(lr=0.05, weight_decay=0.1, eps=(1e-3, 1e-2), d=1.5, maximize=True)], ids=str)
def test_adafactor_is_torchs_and_each_reads_the_others_file(words):
    (ours, one), (theirs, two) = made(altgrad.optim.Adafactor, **words), made(torch.optim.Adafactor, foreach=False, **words)
    for step in range(40):
        for mine, other in zip(ours, theirs):
            mine.grad = torch.randn_like(mine) * 0.1
            other.grad = mine.grad.clone()
        one.step(), two.step()
        if step % 10 == 9:
            files = copy.deepcopy(two.state_dict()), copy.deepcopy(one.state_dict())
            one.load_state_dict(files[0]), two.load_state_dict(files[1])
    for mine, other in zip(ours, theirs):
        torch.testing.assert_close(mine, other, rtol=2e-6, atol=2e-6)
    assert {len(state) for state in one.state_dict()["state"].values()} == {2, 3}  # vectors have one variance


@pytest.mark.parametrize("name", ["Adafactor", "CAME", "SM3", "SinkGD"])
def test_rows_and_columns_without_a_gradient_leave_the_others_finite(name):
    params, optimizer = made(getattr(altgrad.optim, name), [(8, 9), (6, 4)])
    for _ in range(2):
        params[0].grad, params[1].grad = torch.randn(8, 9), torch.zeros(6, 4)
        params[0].grad[3], params[0].grad[:, 2] = 0.0, 0.0
        optimizer.step()
    assert all(param.isfinite().all() for param in params)


def test_a_file_of_torchs_in_bfloat16_goes_on_in_float32():
    theirs, two = made(torch.optim.Adafactor, dtype=torch.bfloat16)
    ours, one = made(altgrad.optim.Adafactor, dtype=torch.bfloat16)
    for mine, other in zip(ours, theirs):
        other.grad = torch.randn_like(other)
        mine.grad = other.grad.clone()
    two.step()
    one.load_state_dict(two.state_dict())
    one.step()
    assert {one.state[param]["row_var"].dtype for param in ours} == {torch.float32}


def test_a_group_of_several_dtypes_has_to_give_eps():
    params = [torch.nn.Parameter(torch.ones(4, 4, dtype=dtype)) for dtype in (torch.float32, torch.bfloat16)]
    optimizer = altgrad.optim.Adafactor(params)
    for param in params:
        param.grad = torch.ones_like(param)
    with pytest.raises(ValueError, match="give each dtype a group of its own, or eps="):
        optimizer.step()
    optimizer.param_groups[0]["eps"] = (1e-7, 1e-3)
    optimizer.step()
