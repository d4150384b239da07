"""Numbers of squares, and products of matrices and squares with one number for each row or column, beside NumPy."""

import re

import numpy as np
import pytest
import torch

import altgrad
import altgrad.language as ag

SHAPES = [(5, 7), (9, 4), (1, 6), (6, 1), (70, 66)]


@ag.rule(of="matrices")
def traced(p: ag.Param, g: ag.Grad, l: ag.Square("rows"), r: ag.Square("columns"), a: ag.Scalar, b: ag.Scalar, *, lr=0.1):
    l, r = ag.lerp(l, g @ g.T, 0.1), ag.lerp(r, g.T @ g, 0.1)
    a, b = l.norm() + r.max() - ag.rms(r) + (r > 0).count(), (l.sum() + ag.trace(r)) / ag.numel + l.mean()
    l = l / (ag.trace(l) + 1.0)
    return p - lr * (l @ g) / (1 + (r * r).mean()), dict(l=l, r=r, a=a, b=b)


def traced_by_numpy(p, g, l, r, lr):
    l, r = 0.9 * l + 0.1 * g @ g.T, 0.9 * r + 0.1 * g.T @ g
    a, b = np.linalg.norm(l) + r.max() - np.sqrt((r * r).mean()) + (r > 0).sum(), (l.sum() + np.trace(r)) / p.size + l.mean()
    l = l / (np.trace(l) + 1)
    return p - lr * (l @ g) / (1 + (r * r).mean()), dict(l=l, r=r, a=np.array(a), b=np.array(b))


def test_numbers_of_squares_are_those_of_numpy():
    assert max(traced.check(traced_by_numpy, steps=20, shapes=SHAPES).values()) < 2e-5


@ag.rule(of="matrices")
def lines(p: ag.Param, g: ag.Grad, l: ag.Square("rows"), r: ag.Square("columns"), y: ag.Row, z: ag.Column, *, lr=0.1):
    l, r = ag.lerp(l, g @ g.T, 0.1), ag.lerp(r, g.T @ g, 0.1)
    y, z = ag.lerp(y, ag.diagonal(l) + g @ z, 0.1), ag.lerp(z, ag.diagonal(r) - g.T @ y, 0.1)
    u, v = l @ y - l.T @ (g @ z), r.T @ z + (2 * r) @ (g.T @ y)
    return p - lr * u * v, dict(l=l, r=r, y=y, z=z)


def lines_by_numpy(p, g, l, r, y, z, lr):
    l, r = 0.9 * l + 0.1 * g @ g.T, 0.9 * r + 0.1 * g.T @ g
    y, z = y[:, 0], z[0]
    y, z = y + 0.1 * (np.diag(l) + g @ z - y), z + 0.1 * (np.diag(r) - g.T @ y - z)
    u, v = l @ y - l.T @ (g @ z), r.T @ z + 2 * r @ (g.T @ y)
    return p - lr * np.outer(u, v), dict(l=l, r=r, y=y[:, None], z=z[None])


def test_lists_of_rows_and_columns_are_multiplied_as_by_numpy():
    found = lines.check(lines_by_numpy, steps=8, shapes=[(5, 7), (9, 4), (1, 6), (6, 1)])
    assert max(found.values()) < 1e-3


SHORT = """
rule short(param w, grad g, row_square l, column_square r, row y, column z, lr = 0.1)
  l = lerp(l, matmul(g, transpose(g)), 0.1)
  r = lerp(r, matmul(transpose(g), g), 0.1)
  y = lerp(y, diagonal(l) + matmul(g, z), 0.1)
  z = lerp(z, diagonal(r) - matmul(transpose(g), y), 0.1)
  l = l / (trace(l) + norm(l) + mean(r) + count(l > 0) + 1)
  w = w - lr * matmul(l, y) * matmul(transpose(r), z)
"""


def test_short_text_has_the_numbers_of_numpy(tmp_path):
    (tmp_path / "short.mlir").write_text(SHORT)
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(5, 7))
    optimizer = altgrad.optim.FromRule(tmp_path / "short.mlir")([param])
    w, l, r, y, z = param.detach().double().numpy(), np.zeros((5, 5)), np.zeros((7, 7)), np.zeros(5), np.zeros(7)
    for _ in range(6):
        param.grad = torch.randn(5, 7)
        optimizer.step()
        g = param.grad.double().numpy()
        l, r = 0.9 * l + 0.1 * g @ g.T, 0.9 * r + 0.1 * g.T @ g
        y = 0.9 * y + 0.1 * (np.diag(l) + g @ z)
        z = 0.9 * z + 0.1 * (np.diag(r) - g.T @ y)
        l = l / (np.trace(l) + np.linalg.norm(l) + r.mean() + (l > 0).sum() + 1)
        w = w - 0.1 * np.outer(l @ y, r.T @ z)
    np.testing.assert_allclose(param.detach().numpy(), w, atol=2e-6)


def test_a_matrix_times_a_list_is_one_reduction_and_no_product():
    assert "matmul" not in re.sub(r"altgrad.rule.*", "", nuclear.text) and nuclear.text.count("altgrad.reduce add") == 2


@ag.rule
def nuclear(p: ag.Param, g: ag.Grad, v: ag.Column, t: ag.Step, *, radius=10.0):
    r = g @ ag.where(t == 1, 1.0, v)
    r = r / (r.norm() + 1e-30)
    v = g.T @ r
    v = v / (v.norm() + 1e-30)
    return ag.lerp(p, -radius * r * v, 2 / (t + 2)), dict(v=v)


def test_power_iterations_find_the_leading_singular_vectors():
    torch.manual_seed(0)
    grad = torch.linalg.qr(torch.randn(9, 6))[0] @ torch.diag(torch.tensor([5.0, 2, 1, 1, 1, 1])) @ torch.linalg.qr(torch.randn(6, 6))[0]
    param = torch.nn.Parameter(torch.randn(9, 6))
    optimizer = nuclear.optimizer()([param])
    for _ in range(40):
        param.grad = grad
        optimizer.step()
    leading = torch.linalg.svd(grad)[2][0]
    assert abs(optimizer.state[param]["v"].flatten() @ leading) > 1 - 1e-6
    assert torch.linalg.svdvals(param.detach()).sum() < 10 + 1e-3


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (5,), (), (1, 1), (2, 3, 4)])
def test_odd_shapes_are_stepped_or_refused_in_words(shape):
    param = torch.nn.Parameter(torch.ones(shape))
    try:
        optimizer = traced.optimizer()([param])
        for _ in range(3):
            param.grad = torch.ones(shape)
            optimizer.step()
    except (ValueError, RuntimeError) as error:
        assert "matri" in str(error) or "dimension" in str(error)
    assert param.isfinite().all()


def test_tensors_of_two_sets_some_of_which_are_absent_have_the_bits_of_one_alone():
    def stepped(chosen, seed=0):
        torch.manual_seed(seed)
        params = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape, dtype in kinds]
        grads = [[torch.randn_like(param) for param in params] for _ in range(5)]
        optimizer = lines.optimizer()([params[index] for index in chosen])
        for step, each in enumerate(grads):
            for index, (param, grad) in enumerate(zip(params, each)):
                param.grad = None if (step + index) % 3 == 0 else grad
            optimizer.step()
        return [params[index] for index in chosen]

    kinds = [((7, 3), torch.float32), ((5, 6), torch.bfloat16), ((4, 6), torch.float32), ((0, 3), torch.float32), ((9, 8), torch.bfloat16)]
    together = stepped(range(len(kinds)))
    assert all(torch.equal(together[index], stepped([index])[0]) and together[index].isfinite().all() for index in range(len(kinds)))


def test_a_gradient_that_is_not_finite_reaches_the_numbers_of_its_square_alone():
    params = [torch.nn.Parameter(torch.ones(4, 3)) for _ in range(2)]
    optimizer = traced.optimizer()(params)
    for param, bad in zip(params, (float("nan"), 1.0)):
        param.grad = torch.randn(4, 3)
        param.grad[1, 2] = bad
    optimizer.step()
    states = [optimizer.state[param] for param in params]
    assert np.isnan(float(states[0]["b"])) and np.isfinite(float(states[1]["b"])) and params[1].isfinite().all()
