"""Reductions of what is one for each row, column or tensor, and of comparisons over every set, beside NumPy."""

import numpy as np
import pytest
import torch

import altgrad
import altgrad.language as ag

SHAPES = [(5, 7), (64, 33), (1, 40), (40, 1), (6, 2, 9), (17,), (), (3, 4500)]
TEXT = """
rule numbers(param w, grad g, row r, column c, scalar s, scalar n, scalar b, global k, global m, lr = 0.1)
  r = 0.5 * r + mean(g * g over row)
  c = 0.5 * c + mean(g * g over column)
  s = max(r over tensor) + sum(c over tensor) + rms(c over tensor)
  n = count(r > 1 over tensor) + count(c > 1 over tensor) + 0.5 * sum(c over tensor) + 0.25 * max(r over tensor)
  b = (4 if all(r > 0 over tensor) else 0) + (2 if any(c > 3 over tensor) else 0)
  k = sum(norm(g) over step) + max(r over step) + mean(c over step)
  m = mean(norm(g) over step) + count(r > 1 over step) + absmax(-c over step)
  one = sum(c over row) / sum(c over tensor) * max(r over tensor) / max(r over column)
  w = w - lr * one * (2 if all(g < 2 over column) else 1) * count(g > 0 over row) / columns * g
"""


@ag.rule
def numbers(w: ag.Param, g: ag.Grad, r: ag.Row, c: ag.Column, s: ag.Scalar, n: ag.Scalar, b: ag.Scalar, k: ag.Global, m: ag.Global, *, lr=0.1):
    r = 0.5 * r + (g * g).mean("row")
    c = 0.5 * c + (g * g).mean("column")
    s = r.max() + c.sum() + ag.rms(c)
    n = (r > 1).count() + (c > 1).count() + 0.5 * c.sum() + 0.25 * r.max()
    b = ag.where((r > 0).all(), 4, 0) + ag.where((c > 3).count() > 0, 2, 0)
    k = ag.total(g.norm()) + r.max("step") + c.mean("step")
    m = g.norm().mean("step") + (r > 1).count("step") - (-c).min("step")
    w = w - lr * ag.where((g < 2).all("column"), 2, 1) * (g > 0).count("row") / ag.columns * g
    return w, dict(r=r, c=c, s=s, n=n, b=b, k=k, m=m)


def due(state, ws, gs):
    """A step in float64: of each tensor as one matrix, and of all."""
    for i, g in enumerate(gs):
        state["r", i] = 0.5 * state.get(("r", i), 0) + (g * g).mean(1, keepdims=True)
        state["c", i] = 0.5 * state.get(("c", i), 0) + (g * g).mean(0, keepdims=True)
        r, c = state["r", i], state["c", i]
        state["s", i] = r.max() + c.sum() + np.sqrt((c * c).mean())
        state["n", i] = (r > 1).sum() + (c > 1).sum() + 0.5 * c.sum() + 0.25 * r.max()
        state["b", i] = 4 * (r > 0).all() + 2 * (c > 3).any()
        ws[i] = ws[i] - 0.1 * np.where((g < 2).all(0, keepdims=True), 2, 1) * (g > 0).sum(1, keepdims=True) / g.shape[1] * g
    norms = [np.sqrt((g * g).sum()) for g in gs]
    rs, cs = [np.concatenate([state[name, i].ravel() for i in range(len(gs))]) for name in "rc"]
    state["k"] = sum(norms) + rs.max() + cs.mean()
    state["m"] = np.mean(norms) + (rs > 1).sum() + np.abs(cs).max()


@pytest.mark.parametrize("dtypes", [[torch.float32], [torch.float32, torch.bfloat16]], ids=["one set", "two sets"])
@pytest.mark.parametrize("source", ["text", "python"])
def test_each_number_counts_once(source, dtypes):
    made = altgrad.optim.FromRule(TEXT, storage="master=f32") if source == "text" else numbers.optimizer(storage="master=f32")
    params = [torch.nn.Parameter(torch.randn(shape).to(dtypes[i % len(dtypes)])) for i, shape in enumerate(SHAPES)]
    optimizer, state = made(params), {}
    whole = lambda x: x.detach().double().numpy().reshape(-1, x.shape[-1] if x.dim() else 1)  # noqa: E731
    ws = [whole(param) for param in params]
    for _ in range(3):
        for param in params:
            param.grad = torch.randn(param.shape).to(param.dtype)
        due(state, ws, [whole(param.grad) for param in params])
        optimizer.step()
    for i, param in enumerate(params):
        held = optimizer.state[param]
        np.testing.assert_allclose(whole(held.get("master", param)), ws[i], rtol=1e-5, atol=2e-6)
        for name in "snb":
            np.testing.assert_allclose(held[name].item(), state[name, i], rtol=1e-5)
    for name in "km":
        np.testing.assert_allclose(optimizer.param_groups[0][name].item(), state[name], rtol=1e-5)


def test_what_is_the_same_for_all_is_not_reduced():
    for line, words in (("sum(r over row)", "the same for all elements"), ("sum(c over column)", "the same for all elements of a column"),
                        ("sum(lr over step)", "the same for all elements"), ("sum(norm(g) over tensor)", "the same for all elements"),
                        ("count(r > 0 over row)", "the same for all elements"), ("count(g over row)", "take a comparison")):
        with pytest.raises(altgrad.Error, match=words):
            altgrad.optim.FromRule(f"rule r(param w, grad g, row r, column c, lr = 0.1)\n  r = r + 1\n  c = c + 1\n  w = w - g * {line}\n")


def test_what_folds_to_a_state_is_summed():
    """The compiler finds that both sides are one state after the reductions are in their place."""
    text = """rule folded(param w, grad g, row r = 0.5, scalar s, lr = 0.1)
      one = minimum(r, r)
      s = mean(one over tensor) + max(one over step)
      r = 0.5 * r + mean(g * g over row)
      w = w - lr * s * g
    """
    param = torch.nn.Parameter(torch.randn(3, 5))
    optimizer = altgrad.optim.FromRule(text)([param])
    param.grad = torch.randn(3, 5)
    optimizer.step()
    assert optimizer.state[param]["s"].item() == 1.0
    rows = optimizer.state[param]["r"].clone()
    optimizer.step()
    assert optimizer.state[param]["s"].item() == pytest.approx((rows.mean() + rows.max()).item(), rel=1e-6)
