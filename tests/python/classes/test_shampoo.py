"""Shampoo beside its formulas in float64."""

import numpy
import pytest
import torch

import altgrad

FLOOR = 1e-7  # of the largest eigenvalue


def inverse_root(square, root):
    values, vectors = numpy.linalg.eigh(square)
    return vectors * numpy.maximum(values, FLOOR * values[-1]) ** (-1 / root) @ vectors.T


class Reference:
    """facebookresearch/optimizers' DistributedShampoo for one matrix, in float64, with a floor under the eigenvalues."""

    def __init__(self, weight, betas, every, start, graft, sides, lr, decay, eps):
        self.w, self.m, self.v, self.t = weight, numpy.zeros_like(weight), numpy.zeros_like(weight), 0
        self.betas, self.every, self.start, self.graft, self.sides = betas, every, start, graft, sides
        self.lr, self.decay, self.eps = lr, decay, eps
        self.grams, self.roots = [numpy.zeros((size, size)) for size in weight.shape], [None, None]

    def step(self, g):
        self.t += 1
        (beta1, beta2), t = self.betas, self.t
        outer = [g @ g.T, g.T @ g]
        self.grams = [beta2 * old + (1 - beta2 if beta2 < 1 else 1) * new for old, new in zip(self.grams, outer)]
        begun = 1 - beta2 ** t if beta2 < 1 else 1
        if t == self.start or t > self.start and t % self.every == 0:
            root = 2 * sum(self.sides)
            self.roots = [inverse_root(gram / begun + self.eps * numpy.eye(len(gram)), root) for gram in self.grams]
        self.m, self.v = beta1 * self.m + (1 - beta1) * g, 0.999 * self.v + 0.001 * g * g
        f = self.m / (1 - beta1 ** t)
        a = f / (numpy.sqrt(self.v / (1 - 0.999 ** t)) + 1e-8)
        if t < self.start:
            u = a if self.graft else f
        else:
            u = self.roots[0] @ f if self.sides[0] else f
            u = u @ self.roots[1] if self.sides[1] else u
            u = u * numpy.linalg.norm(a) / (numpy.linalg.norm(u) + 1e-16) if self.graft else u
        self.w = self.w - self.lr * (u + self.decay * self.w)


@pytest.mark.parametrize("graft", [None, "adam"])
@pytest.mark.parametrize("beta2, every, start", [(1.0, 1, 1), (0.9, 3, 5)])
@pytest.mark.parametrize("shape, most", [((8, 6), 1024), ((5, 9), 1024), ((12, 5), 6)])
def test_forty_steps_are_those_of_the_formula(shape, most, beta2, every, start, graft):
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(shape))
    first = param.detach().double().numpy().copy()
    sides = [size <= most for size in shape]
    reference = Reference(first.copy(), (0.9, beta2), every, start, graft, sides, 1e-2, 0.1, 1e-3)
    optimizer = altgrad.optim.Shampoo([param], lr=1e-2, betas=(0.9, beta2), epsilon=1e-3, weight_decay=0.1, max_precond_dim=most,
                                      precondition_frequency=every, start_preconditioning_step=start, grafting_type=graft)
    for _ in range(40):
        param.grad = torch.randn(shape)
        optimizer.step()
        reference.step(param.grad.double().numpy())
    moved = numpy.abs(reference.w - first).max()
    assert numpy.abs(param.detach().double().numpy() - reference.w).max() < 1e-3 * moved


def test_arguments_that_are_none_are_refused_by_name():
    param = torch.nn.Parameter(torch.ones(3, 2))
    for given, words in ((dict(betas=(0.9, 1.5)), "betas are"), (dict(precondition_frequency=0), "precondition_frequency is 0"),
                         (dict(grafting_type="sgd"), "neither None nor 'adam'"), (dict(max_precond_dim=2.5), "not a whole number")):
        with pytest.raises(ValueError, match=words):
            altgrad.optim.Shampoo([param], **given)
