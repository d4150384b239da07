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
    first, reference = param.detach().clone(), Reference(param.detach().reshape(len(param), -1), every, sides)
    optimizer = altgrad.optim.SOAP([param], precondition_frequency=every, **options)
    for step in range(steps):
        param.grad = torch.randn(shape)
        optimizer.step()
        reference.step(param.grad.reshape(len(param), -1).double().numpy(), bases_of(optimizer.state[param]) if step == 0 else None)
        assert step > 0 or torch.equal(param, first)  # the first step only makes the bases
    moved = numpy.abs(reference.w.reshape(shape) - first.double().numpy()).max()
    return numpy.abs(param.detach().double().numpy() - reference.w.reshape(shape)).max() / (moved or 1), optimizer.state[param], reference


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


def test_a_vector_has_a_basis_with_precondition_1d():
    difference, state, reference = run((5,), every=14, sides=(True, False), precondition_1d=True)  # whose square has full rank by then
    assert difference < 1e-3 and state["row_basis"].shape == (5, 5) and "column_basis" not in state
    assert state["exp_avg"].shape == (5,) and numpy.abs(state["row_gram"].double().numpy() - reference.grams[0]).max() < 1e-4
    assert "row_basis" not in run((9,), steps=2, sides=(False, False), precondition_1d=True, max_precond_dim=8)[1]


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


def stepped(params, grads, **options):
    optimizer = altgrad.optim.SOAP(params, precondition_frequency=3, **options)
    for step in grads:
        for param, grad in zip(params, step):
            param.grad = grad
        optimizer.step()
    return optimizer


def test_a_transposed_matrix_has_the_bits_of_its_contiguous_twin():
    torch.manual_seed(0)
    weight, grads = torch.randn(6, 9), torch.randn(10, 1, 6, 9)
    one, other = torch.nn.Parameter(weight.clone()), torch.nn.Parameter(weight.t().contiguous().t())
    stepped([one], grads), stepped([other], grads)
    assert other.stride() == (1, 6) and torch.equal(one, other)


def test_a_parameter_without_a_gradient_waits_and_counts_by_itself():
    torch.manual_seed(0)
    weight, grads = torch.randn(6, 5), torch.randn(8, 6, 5)
    params = [torch.nn.Parameter(weight.clone()) for _ in range(3)]
    alone = [param for param in params[2:]]
    stepped(params[:2], [(grads[i], grads[i - 2] if i > 1 else None) for i in range(8)])
    stepped(alone, [(grads[i],) for i in range(6)])
    # torch's products of two matrices at once are not those of one, bit by bit.
    assert torch.allclose(params[1], alone[0], atol=1e-6) and not torch.allclose(params[0], params[1], atol=1e-3)


def test_narrow_parameters_with_a_master_a_clip_and_an_empty_matrix():
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape).to(torch.bfloat16)) for shape in ((8, 6), (0, 4), (7,), (4, 3, 2))]
    grads = [[torch.randn(param.shape).to(torch.bfloat16) for param in params] for _ in range(8)]
    optimizer = stepped(params, grads, storage="master=f32", max_grad_norm=1.0)
    assert all(param.isfinite().all() for param in params)
    assert optimizer.state[params[3]]["column_gram"].shape == (6, 6) and optimizer.state[params[0]]["master"].dtype == torch.float32


def test_a_gradient_that_is_not_finite_raises_or_leaves_nan_and_no_other_parameter_moves():
    params = [torch.nn.Parameter(torch.ones(4, 3)) for _ in range(2)]
    grads = [[torch.randn(4, 3), torch.randn(4, 3)] for _ in range(3)]
    grads[2][0][0, 0] = float("nan")
    stepped(params, grads)
    assert params[0].isnan().any() and params[1].isfinite().all()
