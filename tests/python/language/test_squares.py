"""Squares in rules in Python: SOAP in twenty lines has the bits of the library's."""

import numpy as np
import pytest
import torch

import altgrad
import altgrad.language as ag


@ag.rule
def soap(p: ag.Param, g: ag.Grad, m: ag.State, v: ag.State, l: ag.Square("rows"), r: ag.Square("columns"), ql: ag.Square("rows"),
         qr: ag.Square("columns"), t: ag.Step, *, lr=3e-3, betas=(0.95, 0.95), eps=1e-8, weight_decay=0.01, every=4):
    l, r = ag.lerp(l, g @ g.T, 1 - betas[1]), ag.lerp(r, g.T @ g, 1 - betas[1])
    first = ag.when(t == 1)
    x = 0 * g if first else ql.T @ g @ qr
    m, v = ag.lerp(m, x, 1 - betas[0]), ag.fma(1 - betas[1], x * x, betas[1] * v)
    if first:
        return p + 0 * g, dict(m=m, v=v, l=l, r=r, ql=ag.eigenbasis(l), qr=ag.eigenbasis(r))
    u = ql @ (m / (ag.sqrt(v) + eps)) @ qr.T
    n = t - 1
    p = (p - lr * ag.sqrt(1 - betas[1] ** n) / (1 - betas[0] ** n) * u) * (1 - lr * weight_decay)
    if ag.when((t - 1) % every == 0):
        pl, pr = ag.order(l, ql), ag.order(r, qr)
        nl, nr = ag.orthonormal(l @ ql @ pl), ag.orthonormal(r @ qr @ pr)
        m, v = nl.T @ (ql @ m) @ qr.T @ nr, pl.T @ v @ pr
        ql, qr = nl, nr
    return p, dict(m=m, v=v, l=l, r=r, ql=ql, qr=qr)


def stepped(make, steps=14, shape=(9, 6)):
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(shape))
    optimizer = make([param])
    for _ in range(steps):
        param.grad = torch.randn(shape)
        optimizer.step()
    return param.detach()


def test_a_rule_in_python_has_the_bits_of_the_class():
    mine = stepped(soap.optimizer())
    assert torch.equal(mine, stepped(lambda params: altgrad.optim.SOAP(params, precondition_frequency=4)))


def test_the_template_is_a_class_by_its_timed_options():
    made = altgrad.optim.FromRule("soap", timed={"first": 0, "refresh": 4})
    assert torch.equal(stepped(made), stepped(lambda params: altgrad.optim.SOAP(params, precondition_frequency=4)))
    with pytest.raises(ValueError, match="has no option 'fresh', which timed= names"):
        altgrad.optim.FromRule("soap", timed={"fresh": 0})


def test_a_square_that_meets_another_matrix_is_refused_at_its_line():
    @ag.rule
    def wrong(p: ag.Param, g: ag.Grad, l: ag.Square("rows")):
        l = g @ g
        return p - g, dict(l=l)

    with pytest.raises(ag.RuleError, match="@ of a matrix of rows x columns and one of rows x columns"):
        wrong.text


@ag.rule(of="matrices")
def along_basis(p: ag.Param, g: ag.Grad, q: ag.Square("columns", first=1.0), t: ag.Step, *, lr=0.1):
    basis = ag.orthonormal(g @ q)
    return p - lr * basis, dict(q=basis.T @ g)


def test_an_orthonormal_basis_of_a_matrix_is_numpys():
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in ((9, 4), (9, 4), (5, 5), (6, 1), (300, 40))]
    squares = [np.eye(param.shape[1]) for param in params]
    optimizer = along_basis.optimizer()(params)
    for _ in range(3):
        before = [param.detach().double().numpy().copy() for param in params]
        for param in params:
            param.grad = torch.randn(param.shape)
        optimizer.step()
        for i, param in enumerate(params):
            grad = param.grad.double().numpy()
            basis = np.linalg.qr(grad @ squares[i])[0]
            squares[i] = basis.T @ grad
            np.testing.assert_allclose(param.detach().numpy(), before[i] - 0.1 * basis, atol=2e-5)
            np.testing.assert_allclose(optimizer.state[param]["q"], squares[i], atol=1e-3)


def test_an_orthonormal_basis_of_fewer_rows_than_columns_is_refused_before_anything_changes():
    wide = torch.nn.Parameter(torch.ones(4, 9))
    with pytest.raises(ValueError, match=r"\(4, 9\).* has 4 rows and 9 columns, .* make a parameter of the transpose"):
        along_basis.optimizer()([torch.nn.Parameter(torch.ones(9, 4)), wide])
    unasked = type("Unasked", (along_basis.optimizer(),), {"_multiplies": None})([wide])
    wide.grad = torch.ones(4, 9)
    with pytest.raises(altgrad.Error, match="has 4 rows and 9 columns; set 0 has an orthonormal basis of the columns"):
        unasked.step()
    assert wide.eq(1).all()


@ag.rule(of="matrices")
def muon_by_hand(p: ag.Param, g: ag.Grad, *, lr=0.1):
    x = g / (g.norm() + 1e-7)
    for a, b, c in [(3.4445, -4.7750, 2.0315)] * 3:
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return p - lr * x


def muon_by_numpy(p, g, lr):
    x = g / (np.linalg.norm(g) + 1e-7)
    for a, b, c in [(3.4445, -4.7750, 2.0315)] * 3:
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return p - lr * x


def test_an_iteration_by_hand_has_elements_of_products_of_gram_matrices():
    assert max(muon_by_hand.check(muon_by_numpy, steps=5).values()) < 2e-6


@ag.rule(of="matrices")
def from_identity(p: ag.Param, g: ag.Grad, l: ag.Square("rows", first=0.25), t: ag.Step, *, lr=0.1):
    l = ag.lerp(l, g @ g.T, 0.1)
    return p - lr * (l @ g), l


def test_a_square_begins_as_a_number_times_the_identity():
    torch.manual_seed(0)
    param, square = torch.nn.Parameter(torch.randn(5, 7)), 0.25 * np.eye(5)
    optimizer = from_identity.optimizer()([param])
    for _ in range(4):
        param.grad, before = torch.randn(5, 7), param.detach().double().numpy()
        optimizer.step()
        g = param.grad.double().numpy()
        square = 0.9 * square + 0.1 * g @ g.T
        np.testing.assert_allclose(param.detach().numpy(), before - 0.1 * square @ g, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(optimizer.state[param]["l"], square, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("square, words", [(ag.Square("rows", first="p"), "l begins as 'p', which is no finite number to multiply the identity by"),
                                           (ag.Square("rows", first=2.0), "l begins as 2.0 times the identity in the first step: give the rule an ag.Step")])
def test_a_first_square_needs_a_number_and_a_step(square, words):
    def wrong(p: ag.Param, g: ag.Grad, l: square):
        return p - g, dict(l=g @ g.T)

    with pytest.raises(ag.RuleError, match=words):
        ag.rule(wrong).text
