"""KL-Shampoo (W. Lin et al., 2025) as a rule in Python, beside its formulas in float64."""

import numpy
import pytest
import torch

import altgrad.language as ag

BETA1, BETA2, LR, EPS = 0.9, 0.95, 1e-2, 1e-3


@ag.rule(of="matrices")
def kl_shampoo(p: ag.Param, g: ag.Grad, m: ag.State, l: ag.Square("rows"), r: ag.Square("columns"), rl: ag.Square("rows"),
               rr: ag.Square("columns"), t: ag.Step, *, lr=LR, betas=(BETA1, BETA2), eps=EPS):
    """l and r minimize the divergence of their Kronecker product, each through the other's inverse; rl and rr are l^(-1/2), r^(-1/2)."""
    if ag.when(t == 1):
        x, y = g, g
    else:
        x, y = g @ rr, rl @ g
    l, r = ag.lerp(l, x @ x.T / ag.columns, 1 - betas[1]), ag.lerp(r, y.T @ y / ag.rows, 1 - betas[1])
    c = 1 - betas[1] ** t
    rl, rr = ag.inverse_root(l / c + eps * ag.identity(l), 2), ag.inverse_root(r / c + eps * ag.identity(r), 2)
    m = ag.lerp(m, g, 1 - betas[0])
    return p - lr * (rl @ m @ rr), dict(m=m, l=l, r=r, rl=rl, rr=rr)


def root_of(square):
    values, vectors = numpy.linalg.eigh(square)
    return vectors * values ** -0.5 @ vectors.T


def reference(weight, grads):
    m, roots, squares = numpy.zeros_like(weight), None, [numpy.zeros((size, size)) for size in weight.shape]
    rows, columns = weight.shape
    for t, g in enumerate(grads, 1):
        inverses = [root @ root for root in roots] if roots else [numpy.eye(size) for size in weight.shape]
        grams = g @ inverses[1] @ g.T / columns, g.T @ inverses[0] @ g / rows
        squares = [BETA2 * old + (1 - BETA2) * new for old, new in zip(squares, grams)]
        roots = [root_of(square / (1 - BETA2 ** t) + EPS * numpy.eye(len(square))) for square in squares]
        m = BETA1 * m + (1 - BETA1) * g
        weight = weight - LR * roots[0] @ m @ roots[1]
    return weight


@pytest.mark.parametrize("shape", [(8, 6), (5, 9), (7, 7)])
def test_thirty_steps_are_those_of_the_formula(shape):
    torch.manual_seed(0)
    weight, grads = torch.randn(shape), torch.randn(30, *shape)
    param = torch.nn.Parameter(weight.clone())
    optimizer = kl_shampoo.optimizer()([param])
    for grad in grads:
        param.grad = grad
        optimizer.step()
    wanted = reference(weight.double().numpy(), grads.double().numpy())
    moved = numpy.abs(wanted - weight.double().numpy()).max()
    assert numpy.abs(param.detach().double().numpy() - wanted).max() < 1e-3 * moved
