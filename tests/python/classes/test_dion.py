"""Dion beside the formulas of its authors in float64, on matrices of any shape, and where they divide by nothing."""

import io
import math

import numpy
import pytest
import torch

import altgrad

LR, MU, DECAY, EPS = 0.02, 0.9, 0.1, 1e-8
SHAPES = [(9, 5), (5, 9), (7, 7), (33, 4), (3, 17), (6, 1), (1, 6)]


class Reference:
    """microsoft/dion's dion_reference.py with Householder's QR for one matrix, in float64. Its Q has r columns."""

    def __init__(self, weight, fraction, multiple=1, power_iters=1):
        self.w, self.m, self.power_iters = weight.copy(), numpy.zeros_like(weight), power_iters
        n = min(weight.shape)
        rank = min(multiple * math.ceil(fraction * n / multiple), n)
        self.q = torch.randn((n, rank), generator=torch.Generator().manual_seed(0)).double().numpy()

    def step(self, g):
        self.m = self.m + g
        wide = self.w.shape[0] < self.w.shape[1]
        b = self.m.T if wide else self.m
        r = self.q
        for _ in range(self.power_iters):
            p = numpy.linalg.qr(b @ r)[0]
            r = b.T @ p
        self.q = r / (numpy.linalg.norm(r, axis=0) + EPS)
        lost, u = (1 - MU) * p @ r.T, p @ self.q.T
        self.m = self.m - (lost.T if wide else lost)
        self.w = self.w * (1 - LR * DECAY) - LR * math.sqrt(self.w.shape[0] / self.w.shape[1]) * (u.T if wide else u)


def made(shape, fraction=1.0, dtype=torch.float32, **options):
    param = torch.nn.Parameter(torch.randn(shape).to(dtype))
    return param, altgrad.optim.Dion([param], lr=LR, mu=MU, weight_decay=DECAY, rank_fraction=fraction, **options)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("shape", SHAPES)
def test_fifty_steps_are_those_of_the_authors(shape, fraction):
    torch.manual_seed(0)
    param, optimizer = made(shape, fraction)
    first = param.detach().double().numpy().copy()
    reference = Reference(first, fraction)
    for _ in range(50):
        param.grad = torch.randn(shape)
        optimizer.step()
        reference.step(param.grad.double().numpy())
    state, rank = optimizer.state[param], reference.q.shape[1]
    assert numpy.abs(param.detach().double().numpy() - reference.w).max() < 2e-4 * numpy.abs(reference.w - first).max()
    assert numpy.abs(state["exp_avg"].double().numpy() - reference.m).max() < 2e-4 * numpy.abs(reference.m).max()
    assert state["q"].shape == (min(shape),) * 2 and not state["q"][:, rank:].any()
    assert numpy.abs(state["q"][:, :rank].double().numpy() - reference.q).max() < 2e-3


@pytest.mark.parametrize("multiple, power_iters", [(4, 1), (3, 2), (1, 4)])
@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (12, 7)])
def test_multiples_of_ranks_and_power_iterations_are_those_of_the_authors(shape, multiple, power_iters):
    torch.manual_seed(0)
    param, optimizer = made(shape, 0.3, rank_multiple_of=multiple, power_iters=power_iters)
    first = param.detach().double().numpy().copy()
    reference = Reference(first, 0.3, multiple, power_iters)
    for _ in range(20):
        param.grad = torch.randn(shape)
        optimizer.step()
        reference.step(param.grad.double().numpy())
    q, rank = optimizer.state[param]["q"], reference.q.shape[1]
    assert rank == {4: 4, 3: 3, 1: {5: 2, 7: 3}[min(shape)]}[multiple] and not q[:, rank:].any()
    assert numpy.abs(param.detach().double().numpy() - reference.w).max() < 2e-4 * numpy.abs(reference.w - first).max()
    assert numpy.abs(q[:, :rank].double().numpy() - reference.q).max() < 2e-3


def test_power_iterations_are_of_each_group_and_take_numbers_of_any_size():
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.ones(9, 5)) for _ in range(3)]
    optimizer = altgrad.optim.Dion([dict(params=params[:1], power_iters=3), dict(params=params[1:2]), dict(params=params[2:], power_iters=3)])
    for scale in (1.0, 1e15, 1e-15):
        grad = scale * torch.randn(9, 1) @ torch.randn(1, 5)
        for param in params:
            param.grad = grad.clone()
        optimizer.step()
    assert torch.equal(params[0], params[2]) and all(param.isfinite().all() for param in params)
    assert (params[0] != params[1]).any() and (params[0] - params[1]).abs().max() < 0.1


def test_another_fraction_of_a_group_takes_columns_of_q_away_or_adds_those_that_it_began_with():
    torch.manual_seed(0)
    param, optimizer = made((9, 8), 0.25)
    for fraction, multiple, rank in ((0.25, 1, 2), (0.5, 1, 4), (1.0, 1, 8), (0.25, 1, 2), (0.3, 4, 4)):
        optimizer.param_groups[0].update(rank_fraction=fraction, rank_multiple_of=multiple)
        before, param.grad = param.detach() * (1 - LR * DECAY), torch.randn(9, 8)
        optimizer.step()
        step = torch.linalg.svdvals((param.detach() - before).double())
        assert (optimizer.state[param]["q"] != 0).any(0).tolist() == [index < rank for index in range(8)]
        assert step[rank - 1] > 1e-3 and (rank == 8 or step[rank] < 1e-6)


@pytest.mark.parametrize("shape, rank", [((9, 5), 5), ((5, 9), 3), ((9, 5), 2)])
def test_a_file_of_the_authors_goes_on(shape, rank):
    torch.manual_seed(0)
    weight = torch.randn(shape)
    reference = Reference(weight.double().numpy(), rank / min(shape))
    for _ in range(5):
        reference.step(torch.randn(shape).double().numpy())
    vector, averages = torch.randn(4), dict(momentum=torch.randn(4), variance=torch.rand(4))
    words = dict(lr=LR, mu=MU, beta1=0.9, beta2=0.95, weight_decay=DECAY, epsilon=EPS, rank_multiple_of=1, oversample=1.25, step=5)
    file = dict(state={0: dict(momentum=torch.tensor(reference.m).float(), Q=torch.tensor(reference.q).float()), 1: averages}, param_groups=[
        dict(words, params=[0], rank_fraction=rank / min(shape), algorithm="dion"), dict(words, params=[1], rank_fraction=1.0, algorithm="adamw")])
    params = [torch.nn.Parameter(torch.tensor(reference.w).float()), torch.nn.Parameter(vector.clone())]
    optimizer = altgrad.optim.Dion([dict(params=params[:1]), dict(params=params[1:])])
    optimizer.load_state_dict(file)
    adamw = torch.optim.AdamW([torch.nn.Parameter(vector.clone())], lr=LR, betas=(0.9, 0.95), eps=EPS, weight_decay=DECAY)
    other, = adamw.param_groups[0]["params"]
    adamw.state[other] = dict(step=torch.tensor(5.0), exp_avg=averages["momentum"].clone(), exp_avg_sq=averages["variance"].clone())
    for _ in range(5):
        for param in (*params, other):
            param.grad = torch.randn(param.shape)
        other.grad = params[1].grad.clone()
        optimizer.step(), adamw.step()
        reference.step(params[0].grad.double().numpy())
    assert numpy.abs(params[0].detach().double().numpy() - reference.w).max() < 1e-5 and torch.allclose(params[1], other, atol=1e-6)


def test_q_begins_alike_whatever_the_default_dtype_and_device():
    torch.manual_seed(0)
    weight, found = torch.randn(9, 5), []
    for dtype, device in ((torch.float32, "cpu"), (torch.bfloat16, "cpu"), (torch.float64, "cpu"), (torch.float32, "meta")):
        param = torch.nn.Parameter(weight.clone())
        param.grad = weight.clone()
        torch.set_default_dtype(dtype), torch.set_default_device(device)
        try:
            altgrad.optim.Dion([param], rank_fraction=0.5).step()
        finally:
            torch.set_default_dtype(torch.float32), torch.set_default_device(None)
        found.append(param.detach())
    assert all(torch.equal(found[0], one) for one in found) and not torch.equal(found[0], weight)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("shape", SHAPES)
def test_zeros_move_nothing_and_what_comes_after_them_is_as_if_they_had_not_been(shape, fraction):
    torch.manual_seed(0)
    weight, grads = torch.randn(shape), torch.randn(4, *shape)
    found = []
    for zeros in (0, 3):
        param = torch.nn.Parameter(weight.clone())
        optimizer = altgrad.optim.Dion([param], lr=LR, weight_decay=0.0, rank_fraction=fraction)
        for grad in [torch.zeros(shape)] * zeros + list(grads):
            assert zeros == 0 or grad.any() or torch.equal(param, weight)
            param.grad = grad
            optimizer.step()
        found.append(param.detach())
    assert torch.equal(*found) and not torch.equal(found[0], weight)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
@pytest.mark.parametrize("shape", SHAPES)
def test_momenta_of_low_rank_leave_finite_steps_no_longer_than_orthonormal_ones(shape, fraction):
    torch.manual_seed(0)
    param, optimizer = made(shape, fraction)
    column, row = torch.randn(shape[0], 1), torch.randn(1, shape[1])
    one_row = torch.zeros(shape)
    one_row[0] = torch.randn(shape[1])
    for grad in [column @ row] * 4 + [1e-30 * column @ row] * 4 + [one_row] * 4 + [1e15 * column @ row] * 4:
        before, param.grad = param.detach() * (1 - LR * DECAY), grad
        optimizer.step()
        step = (param.detach() - before) / (LR * math.sqrt(shape[0] / shape[1]))
        assert torch.linalg.matrix_norm(step, 2) < math.ceil(fraction * min(shape)) ** 0.5 + 1e-3
        assert all(value.isfinite().all() for value in optimizer.state[param].values())


def test_numbers_that_are_not_finite_move_no_parameter_and_a_scaler_skips_them():
    torch.manual_seed(0)
    for bad in ("nan", "inf"):
        params = [torch.nn.Parameter(torch.ones(4, 3)) for _ in range(2)]
        optimizer = altgrad.optim.Dion(params, weight_decay=0.0)
        for step in range(3):
            for param in params:
                param.grad = torch.randn(4, 3)
            params[0].grad[1, 2] = float(bad)
            optimizer.step()
        assert torch.equal(params[0], torch.ones(4, 3)) and params[1].isfinite().all() and (params[1] != 1).any()
    param, optimizer = made((4, 3))
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(torch.zeros(()))
    for step in range(4):
        param.grad = 4 * torch.randn(4, 3)
        before = {key: value.clone() for key, value in optimizer.state[param].items()}
        if step == 2:
            param.grad[0, 0] = float("inf")
        scaler.step(optimizer)
        scaler.update()
        assert step != 2 or all(torch.equal(before[key], value) for key, value in optimizer.state[param].items())
    assert param.isfinite().all()


@pytest.mark.parametrize("shape", [(9, 5), (5, 9), (4, 3, 3)])
def test_a_file_goes_on_bit_by_bit(shape):
    torch.manual_seed(0)
    grads = torch.randn(12, *shape)
    (one, first), (other, second) = [made(shape, 0.5) for _ in range(2)]
    for step, grad in enumerate(grads):
        if step == 5:
            file = io.BytesIO()
            torch.save(first.state_dict(), file)
            second.load_state_dict(torch.load(io.BytesIO(file.getvalue())))
            other.data.copy_(one)
        for param, optimizer in [(one, first), (other, second)][:1 if step < 5 else 2]:
            param.grad = grad.clone()
            optimizer.step()
    assert torch.equal(one, other)
    assert all(torch.equal(value, second.state[other][key]) for key, value in first.state[one].items())


def test_a_matrix_and_its_transpose_take_steps_that_are_transposes_but_for_the_scale():
    torch.manual_seed(0)
    weight, grads = torch.randn(9, 5), torch.randn(10, 9, 5)
    params = [torch.nn.Parameter(weight.clone()), torch.nn.Parameter(weight.t().clone()), torch.nn.Parameter(weight.t().clone().t())]
    optimizers = [altgrad.optim.Dion([param], lr=lr, weight_decay=0.0) for param, lr in zip(params, (0.05, 0.05 * 9 / 5, 0.05))]
    for grad in grads:
        for param, optimizer, turned in zip(params, optimizers, (False, True, False)):
            param.grad = grad.t().clone() if turned else grad.clone()
            optimizer.step()
    assert torch.equal(optimizers[0].state[params[0]]["exp_avg"], optimizers[1].state[params[1]]["exp_avg"].t())
    assert torch.equal(optimizers[0].state[params[0]]["q"], optimizers[1].state[params[1]]["q"])
    assert torch.allclose(params[0], params[1].t(), atol=1e-6) and torch.equal(params[0], params[2])


def test_vectors_and_groups_of_adamw_take_its_steps():
    torch.manual_seed(0)
    mine = [torch.nn.Parameter(torch.ones(5)), torch.nn.Parameter(torch.ones(6, 4)), torch.nn.Parameter(torch.ones(6, 4))]
    theirs = [torch.nn.Parameter(param.detach().double()) for param in mine]
    optimizer = altgrad.optim.Dion([dict(params=[mine[0], mine[2]]), dict(params=[mine[1]], algorithm="adamw")], lr=LR, weight_decay=DECAY)
    adamw = torch.optim.AdamW(theirs, lr=LR, betas=(0.9, 0.95), eps=EPS, weight_decay=DECAY)
    for _ in range(8):
        for param, other in zip(mine, theirs):
            param.grad = torch.randn(param.shape)
            other.grad = param.grad.double()
        optimizer.step(), adamw.step()
    assert all((mine[i].double() - theirs[i]).abs().max() < 1e-6 for i in (0, 1)) and (mine[2].double() - theirs[2]).abs().max() > 1e-3
    assert set(optimizer.state[mine[1]]) == {"step", "exp_avg", "exp_avg_sq"} and {"exp_avg", "q"} <= set(optimizer.state[mine[2]])


def test_narrow_filters_and_empty_matrices_with_a_master_and_a_clip():
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape).to(torch.bfloat16)) for shape in ((8, 6), (0, 4), (7,), (4, 3, 2), (2, 3, 4))]
    optimizer = altgrad.optim.Dion(params, storage="master=f32", max_grad_norm=1.0)
    for _ in range(6):
        for param in params:
            param.grad = torch.randn(param.shape).to(torch.bfloat16)
        optimizer.step()
    assert all(param.isfinite().all() for param in params)
    assert [optimizer.state[params[i]]["q"].shape[0] for i in (0, 3, 4)] == [6, 4, 2]


def test_arguments_that_are_none_are_refused_by_name():
    param = torch.nn.Parameter(torch.ones(3, 2))
    for given, words in ((dict(rank_fraction=0.0), "rank_fraction is 0.0, not above 0"), (dict(rank_fraction=1.5), "at most 1"),
                         (dict(mu=1.5), "mu is 1.5"), (dict(epsilon=-1.0), "epsilon -1.0"), (dict(betas=(0.9, 1.0)), "Invalid beta"),
                         (dict(algorithm="lion"), "neither 'dion' nor 'adamw': give"), (dict(rank_multiple_of=1.5), "rank_multiple_of is 1.5"),
                         (dict(power_iters=0), "power_iters is 0, not a whole number from 1 to 99"), (dict(lr=-1.0), "Invalid learning rate")):
        with pytest.raises(ValueError, match=words):
            altgrad.optim.Dion([param], **given)
    for given, words in ((dict(qr_method="qr"), "torch's QR decomposition factorizes; leave it out"),
                         (dict(mixed_precision_config=None), 'write storage="m=bf16 v=bf16"'), (dict(replicate_mesh=None), "give DTensors")):
        with pytest.raises(TypeError, match=words):
            altgrad.optim.Dion([param], **given)
        with pytest.raises(TypeError, match=words):
            altgrad.optim.Dion([dict(params=[param], **given)])


def test_the_storage_line_speaks_of_the_averages_of_vectors():
    matrix, vector = torch.nn.Parameter(torch.ones(6, 4)), torch.nn.Parameter(torch.ones(6))
    optimizer = altgrad.optim.Dion([matrix, vector], storage="v=bf16")
    matrix.grad, vector.grad = torch.ones(6, 4), torch.ones(6)
    optimizer.step()
    assert optimizer.state[vector]["exp_avg_sq"].dtype == torch.bfloat16 and "exp_avg_sq" not in optimizer.state[matrix]
    with pytest.raises(ValueError, match="names no stream of altgrad.optim.Dion; .* v is stored with algorithm='adamw'\n"):
        altgrad.optim.Dion([matrix], storage="q=bf16")
