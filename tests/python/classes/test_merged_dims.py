"""SOAP and Shampoo with merge_dims beside their authors' formulas of merged tensors in float64, by torch's tensordot."""

import pytest
import torch

import altgrad

LR, BETA, EPS, DECAY = 1e-2, 0.95, 1e-8, 0.01


def merge_of_soap(shape, most):
    """merge_dims of nikhilvyas/SOAP."""
    made, current = [], 1
    for size in shape:
        if current * size <= most:
            current *= size
        else:
            made.append(current if current > 1 else size)
            current = size if current > 1 else 1
    return [*made, current] if current > 1 or not made else made


def merge_of_shampoo(shape, most):
    """merge_small_dims of facebookresearch/optimizers."""
    sizes = [size for size in shape if size != 1] or [1]
    made = [sizes[0]]
    for size in sizes[1:]:
        made = [*made[:-1], made[-1] * size] if made[-1] * size <= most else [*made, size]
    return made


def outer(x, k):
    others = [index for index in range(x.dim()) if index != k]
    return torch.tensordot(x, x, dims=[others, others])


def rotated(x, factors, side):
    """x times a factor along each dimension, whose dimension `side` is summed over; None: none."""
    for factor in factors:
        x = x.movedim(0, -1) if factor is None else torch.tensordot(x, factor, dims=[[0], [side]])
    return x


class Soap:
    def __init__(self, weight, most, every):
        self.sizes = [size if size <= most and size > 1 else 0 for size in weight.shape]
        self.w, self.m, self.v, self.n, self.every = weight, 0 * weight, 0 * weight, -1, every
        self.grams = [torch.zeros(size, size, dtype=torch.float64) if size else None for size in self.sizes]

    def step(self, g, bases):
        self.n += 1
        if self.n == 0:
            self.bases = bases
        else:
            x = rotated(g, self.bases, 0)
            self.m, self.v = BETA * self.m + (1 - BETA) * x, BETA * self.v + (1 - BETA) * x * x
            rate = LR * (1 - BETA ** self.n) ** 0.5 / (1 - BETA ** self.n)
            self.w = (self.w - rate * rotated(self.m / (self.v.sqrt() + EPS), self.bases, 1)) * (1 - LR * DECAY)
        self.grams = [None if old is None else BETA * old + (1 - BETA) * outer(g, k) for k, old in enumerate(self.grams)]
        if self.n and self.n % self.every == 0:
            m = rotated(self.m, self.bases, 1)
            for k, gram in enumerate(self.grams):
                if gram is not None:
                    order = torch.argsort(torch.einsum("ij,ij->j", self.bases[k], gram @ self.bases[k]), descending=True)
                    self.v = self.v.index_select(k, order)
                    self.bases[k] = torch.linalg.qr(gram @ self.bases[k][:, order])[0]
            self.m = rotated(m, self.bases, 0)


def bases_of(state, sizes):
    return [state[key].double() if size else None for key, size in zip(("row_basis", "column_basis"), sizes)]


@pytest.mark.parametrize("shape, most, sizes, every", [
    ((64, 3, 3, 3), 64, (64, 27), 10), ((64, 3, 3, 3), 200, (192, 9), 25), ((8, 4, 3, 3), 40, (32, 9), 10),
    ((2, 2, 3), 12, (12,), 14), ((4, 6, 5), 24, (24, 5), 10), ((3, 1, 5), 10, (3, 5), 10), ((4, 3), 10000, (12,), 14), ((30, 2), 20, (30, 2), 10)])
def test_fifty_steps_of_soap_are_those_of_the_authors(shape, most, sizes, every):
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(shape))
    first, merged = param.detach().double(), merge_of_soap(shape, most)
    assert tuple(merged) == sizes
    reference = Soap(first.reshape(merged), most, every)
    optimizer = altgrad.optim.SOAP([param], lr=LR, precondition_frequency=every, max_precond_dim=most, merge_dims=True)
    for _ in range(50):
        param.grad = torch.randn(shape)
        optimizer.step()
        reference.step(param.grad.double().reshape(merged), bases_of(optimizer.state[param], reference.sizes))
    moved = (reference.w.reshape(shape) - first).abs().max()
    assert (param.detach().double() - reference.w.reshape(shape)).abs().max() < 2e-3 * moved


class Shampoo:
    """With L and R as sums, and no grafting."""

    def __init__(self, weight, most, eps=1e-3):
        self.w, self.m, self.t, self.eps, self.most = weight, 0 * weight, 0, eps, most
        self.grams = [torch.zeros(size, size, dtype=torch.float64) if size <= most else None for size in weight.shape]

    def root(self, gram, order):
        values, vectors = torch.linalg.eigh(gram + self.eps * torch.eye(len(gram), dtype=torch.float64))
        return vectors * values.clamp_min(1e-7 * values[-1]) ** (-1 / (2 * order)) @ vectors.T

    def step(self, g):
        self.t += 1
        self.grams = [None if old is None else old + outer(g, k) for k, old in enumerate(self.grams)]
        self.m = 0.9 * self.m + 0.1 * g
        order = sum(gram is not None for gram in self.grams)
        roots = [None if gram is None else self.root(gram, order) for gram in self.grams]
        self.w = self.w - LR * rotated(self.m / (1 - 0.9 ** self.t), roots, 0)


@pytest.mark.parametrize("shape, most, sizes", [
    ((64, 3, 3, 3), 64, (64, 27)), ((8, 4, 3, 3), 40, (32, 9)), ((8, 4, 3, 3), 1024, (288,)), ((7,), 1024, (7,)),
    ((4, 6, 5), 24, (24, 5)), ((3, 1, 5), 10, (3, 5)), ((30, 2), 20, (30, 2))])
def test_fifty_steps_of_shampoo_are_those_of_the_authors(shape, most, sizes):
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(shape))
    first, merged = param.detach().double(), merge_of_shampoo(shape, most)
    assert tuple(merged) == sizes
    reference = Shampoo(first.reshape(merged), most)
    optimizer = altgrad.optim.Shampoo([param], lr=LR, epsilon=1e-3, max_precond_dim=most, merge_dims=True)
    for _ in range(50):
        param.grad = torch.randn(shape)
        optimizer.step()
        reference.step(param.grad.double().reshape(merged))
    moved = (reference.w.reshape(shape) - first).abs().max()
    assert (param.detach().double() - reference.w.reshape(shape)).abs().max() < 2e-3 * moved


@pytest.mark.parametrize("kind", [altgrad.optim.SOAP, altgrad.optim.Shampoo])
def test_a_shape_that_is_merged_to_three_dimensions_is_refused_in_words(kind):
    params = [torch.nn.Parameter(torch.ones(shape)) for shape in ((4, 6), (4, 6, 5))]
    with pytest.raises(ValueError, match=r"parameter 1 of shape \(4, 6, 5\) is merged to \(4, 6, 5\), as products of neighbours are at "
                                         r"most max_precond_dim = 7, and that is no matrix"):
        kind(params, max_precond_dim=7, merge_dims=True)


@pytest.mark.parametrize("kind", [altgrad.optim.SOAP, altgrad.optim.Shampoo])
def test_vectors_and_empty_tensors_are_stepped_with_merged_dimensions(kind):
    params = [torch.nn.Parameter(torch.ones(shape)) for shape in ((), (1,), (5,), (0,), (0, 4), (1, 1, 1), (2, 0, 3))]
    optimizer = kind(params, merge_dims=True)
    for _ in range(3):
        for param in params:
            param.grad = torch.randn(param.shape)
        optimizer.step()
    assert all(param.isfinite().all() for param in params)


def test_a_parameter_in_another_memory_format_takes_the_steps_of_its_twin():
    torch.manual_seed(0)
    weight, grads = torch.randn(8, 4, 3, 3), torch.randn(12, 8, 4, 3, 3)
    params = [torch.nn.Parameter(weight.clone(memory_format=form)) for form in (torch.contiguous_format, torch.channels_last)]
    for param in params:
        optimizer = altgrad.optim.SOAP([param], precondition_frequency=5, max_precond_dim=40, merge_dims=True)
        for grad in grads:
            param.grad = grad.clone(memory_format=torch.preserve_format)
            optimizer.step()
    assert torch.equal(*params)
