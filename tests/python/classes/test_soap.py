"""SOAP beside the formulas of its authors in float64."""

import io

import numpy
import pytest
import torch

import altgrad

LR, BETA, EPS, DECAY = 3e-3, 0.95, 1e-8, 0.01


class Reference:
    """soap.py of the authors (nikhilvyas/SOAP) for one matrix, in float64; `bases` are those of the first step."""

    def __init__(self, weight, every, sides=(True, True)):
        self.w, self.every, self.sides, self.n = weight.double().numpy().copy(), every, sides, -1
        self.grams = [numpy.zeros((size, size)) for size in self.w.shape]

    def rotate(self, x, back=False):
        left, right = self.bases
        x = x if not self.sides[0] else (left @ x if back else left.T @ x)
        return x if not self.sides[1] else (x @ right.T if back else x @ right)

    def step(self, g, bases=None):
        self.n += 1
        grams = [g @ g.T, g.T @ g]
        if self.n == 0:
            self.m = self.v = numpy.zeros_like(g)
            self.bases = bases
        else:
            x = self.rotate(g)
            self.m, self.v = BETA * self.m + (1 - BETA) * x, BETA * self.v + (1 - BETA) * x * x
            u = self.rotate(self.m / (numpy.sqrt(self.v) + EPS), back=True)
            self.w -= LR * numpy.sqrt(1 - BETA ** self.n) / (1 - BETA ** self.n) * u
            self.w *= 1 - LR * DECAY
        self.grams = [BETA * old + (1 - BETA) * new for old, new in zip(self.grams, grams)]
        if self.n and self.n % self.every == 0:
            self.refresh()

    def refresh(self):
        m = self.rotate(self.m, back=True)
        for side, (gram, basis) in enumerate(zip(self.grams, self.bases)):
            if self.sides[side]:
                order = numpy.argsort(-numpy.diag(basis.T @ gram @ basis), kind="stable")
                self.v = self.v.take(order, axis=side)
                self.bases[side] = numpy.linalg.qr(gram @ basis[:, order])[0]
        self.m = self.rotate(m)


def bases_of(state):
    return [state[key].double().numpy().copy() if key in state else None for key in ("row_basis", "column_basis")]


def run(shape, every=4, steps=40, sides=(True, True), **options):
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(shape))
    first, reference = param.detach().clone(), Reference(param.detach(), every, sides)
    optimizer = altgrad.optim.SOAP([param], precondition_frequency=every, **options)
    for step in range(steps):
        param.grad = torch.randn(shape)
        optimizer.step()
        reference.step(param.grad.double().numpy(), bases_of(optimizer.state[param]) if step == 0 else None)
        assert step > 0 or torch.equal(param, first)  # the first step only makes the bases
    moved = numpy.abs(reference.w - first.double().numpy()).max()
    return numpy.abs(param.detach().double().numpy() - reference.w).max() / (moved or 1), optimizer.state[param], reference


@pytest.mark.parametrize("shape", [(8, 6), (5, 8), (16, 16)])
def test_forty_steps_are_those_of_the_authors(shape):
    difference, state, reference = run(shape)
    assert difference < 1e-3
    assert numpy.abs(state["row_gram"].double().numpy() - reference.grams[0]).max() < 1e-4


def test_the_first_bases_are_eigenvectors_of_the_largest_eigenvalue_first():
    _, state, reference = run((8, 6), every=100, steps=1)
    rotated = bases_of(state)[0].T @ reference.grams[0] @ bases_of(state)[0]
    assert numpy.abs(rotated - numpy.diag(numpy.diag(rotated))).max() < 1e-5
    assert (numpy.diff(numpy.diag(rotated)) < 1e-6).all()


def test_a_long_side_has_no_basis():
    difference, state, _ = run((8, 6), sides=(False, True), max_precond_dim=7)
    assert difference < 1e-3 and "row_gram" not in state and state["column_basis"].shape == (6, 6)


def test_a_vector_takes_steps_of_adam():
    param = torch.nn.Parameter(torch.ones(5))
    optimizer = altgrad.optim.SOAP([param], weight_decay=0.0)
    reference = torch.nn.Parameter(torch.ones(5, dtype=torch.float64))
    adam = torch.optim.Adam([reference], lr=LR, betas=(BETA, BETA), eps=1e-12)
    for step in range(8):
        param.grad = torch.randn(5)
        optimizer.step()
        reference.grad = param.grad.double()
        if step > 0:
            adam.step()
    assert (param.double() - reference).abs().max() < 1e-6 and set(optimizer.state[param]) == {"step", "exp_avg", "exp_avg_sq"}


def test_a_file_goes_on_bit_by_bit():
    torch.manual_seed(0)
    grads = torch.randn(12, 6, 5)
    params = [torch.nn.Parameter(torch.ones(6, 5)) for _ in range(2)]
    one, other = [altgrad.optim.SOAP([param], precondition_frequency=3) for param in params]
    for step, grad in enumerate(grads):
        if step == 5:
            file = io.BytesIO()
            torch.save(one.state_dict(), file)
            other.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
            params[1].data.copy_(params[0])
        for param, optimizer in list(zip(params, (one, other)))[:1 if step < 5 else 2]:
            param.grad = grad.clone()
            optimizer.step()
    assert torch.equal(*params)
    assert all(torch.equal(value, other.state[params[1]][key]) for key, value in one.state[params[0]].items())


def test_a_skipped_step_changes_nothing():
    param = torch.nn.Parameter(torch.ones(6, 5))
    optimizer = altgrad.optim.SOAP([param], precondition_frequency=2)
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(torch.zeros(()))
    for step in range(6):
        param.grad = torch.randn(6, 5) * 4
        before = {key: value.clone() for key, value in optimizer.state[param].items()}
        if step in (0, 3, 4):
            param.grad[1, 2] = float("inf")
            weights = param.detach().clone()
        scaler.step(optimizer)
        scaler.update()
        if step in (3, 4):
            assert torch.equal(param, weights) and all(torch.equal(before[key], optimizer.state[param][key]) for key in before)
    assert optimizer.state[param]["step"] == 3 and param.isfinite().all()
