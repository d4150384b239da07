"""What Muons are asked for besides: equal rows, cautious decay, bits of one's own, and who multiplies fails."""

import ctypes
import os

import altgrad
from altgrad.optim import NewtonSchulz
import gemms
import pytest
import torch

KINDS = altgrad.optim.Muon, altgrad.optim.NorMuon


def matrices(*shapes, seed=0):
    made = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=made)) for shape in shapes]


def give(params, step=0):
    for index, param in enumerate(params):
        param.grad = torch.randn(param.shape, generator=torch.Generator().manual_seed(100 * step + index))


def update(kind, shape, grad, **given):
    """What one step subtracts from a parameter of zeros, over lr."""
    param = torch.nn.Parameter(torch.zeros(shape))
    param.grad = grad.clone()
    kind([param], lr=1.0, nesterov=False, orthogonalize=NewtonSchulz(dtype=torch.float32, **given)).step()
    return -param.detach()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(24, 60), (60, 24), (5, 300)], ids=str)
def test_equal_rows_are_rows_of_length_one_before_the_iteration(kind, shape):
    """A gradient whose rows have been divided by their norms gives the same, and so does any length of its rows."""
    grad = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * torch.logspace(-3, 3, shape[0])[:, None]
    equal = grad.double() / grad.double().norm(dim=1, keepdim=True)
    ours = update(kind, shape, grad, equilibrate="rows")
    assert torch.allclose(ours, update(kind, shape, equal.float()), atol=1e-4)
    assert not torch.allclose(ours, update(kind, shape, grad), atol=1e-2)


def test_a_row_of_zeros_stays_one():
    grad = torch.randn((6, 8), generator=torch.Generator().manual_seed(1))
    grad[2] = 0
    ours = update(altgrad.optim.Muon, (6, 8), grad, equilibrate="rows")
    assert torch.equal(ours[2], torch.zeros(8)) and ours.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_cautious_decay_is_where_update_and_weight_have_one_sign(kind):
    shape, lr, decay = (16, 24), 0.1, 0.5
    with_decay, without = matrices(shape), matrices(shape)
    before = with_decay[0].detach().clone()
    for params, given in ((with_decay, {"weight_decay": decay, "cautious": True}), (without, {"weight_decay": 0.0})):
        give(params)
        kind(params, lr=lr, **given).step()
    moved = before - without[0].detach()
    wanted = without[0].detach() - lr * decay * before * (moved * before >= 0)
    torch.testing.assert_close(with_decay[0].detach(), wanted, atol=1e-6, rtol=0)
    assert not torch.allclose(with_decay[0].detach(), without[0].detach() - lr * decay * before, atol=1e-3)


def test_equal_columns_are_refused():
    with pytest.raises(ValueError, match="equilibrate is 'columns', none of None, 'rows'"):
        altgrad.optim.Muon([{"params": matrices((3, 4)), "equilibrate": "columns"}])


class Counted(gemms.Products):
    """torch's products, counted; after `well` of them the next ones fail, or write a NaN where `fails` is false."""

    def __init__(self, well=1 << 60, fails=True):
        super().__init__()
        self._well, self._fails, self.batches = well, fails, []

    def call(self, gemm, context):
        self.batches.append(gemm[1])
        late = len(self.batches) > self._well
        if self._fails and late:
            return 7
        status = super().call(gemm, context)
        if late:
            ctypes.cast(gemm[8], ctypes.POINTER(ctypes.c_uint16))[0] = 0x7FC0  # a quiet NaN of bfloat16, in c
        return status


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="a GPU's products are its table's")
@pytest.mark.parametrize("kind", KINDS)
def test_bits_of_ones_own_are_calls_of_ones_own(kind):
    """64 x 64 is no product by strips, so that neighbours of one shape are one call otherwise."""
    batches = {}
    for reproducible in (False, True):
        params = matrices((64, 64), (64, 64), (64, 64))
        give(params)
        with Counted() as seen:
            kind(params, reproducible=reproducible).step()
        batches[reproducible] = set(seen.batches)
        alone, = matrices((64, 64))
        alone.grad = params[0].grad
        kind([alone], reproducible=True).step()
        assert not reproducible or torch.equal(alone, params[0])
    assert batches == {False: {3}, True: {1}}


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="strips are a CPU's")
@pytest.mark.parametrize("shape", [(128, 150), (300, 130), (200, 200)], ids=str)
def test_batches_in_strips_are_their_matrices_whatever_the_threads(shape):
    """Of 128 rows on; more matrices than stay in a cache, and no multiple of the threads."""
    params, alone = matrices(*[shape] * 13), matrices(*[shape] * 13)
    give(params), give(alone)
    with Counted() as seen:
        altgrad.optim.Muon(params, lr=1.0, orthogonalize=NewtonSchulz(dtype=torch.float32)).step()
    altgrad.optim.Muon(alone, lr=1.0, orthogonalize=NewtonSchulz(dtype=torch.float32), reproducible=True).step()
    assert 1 < max(seen.batches) < 13 or torch.get_num_threads() > 2
    for mine, its in zip(params, alone):
        torch.testing.assert_close(mine.data, its.data, atol=2e-5, rtol=0)


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="a GPU's products are its table's")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("well", [0, 1, 20])
@pytest.mark.parametrize("fails", [True, False], ids=["fail", "write a NaN"])
def test_products_that_fail_leave_everything_as_it_was(kind, well, fails):
    """AdamW's parameters, states and counts, too; and the next step is the one that failed."""
    shapes = (24, 40), (40, 24), (8,)
    params, others = matrices(*shapes), matrices(*shapes)
    one, other = (kind([{"params": of[:2]}, {"params": of[2:], "use_muon": False}]) for of in (params, others))
    for step in range(2):
        give(params, step), give(others, step)
        if step:
            before = [p.detach().clone() for p in params], [{k: v.clone() for k, v in one.state[p].items()} for p in params]
            words = r"the caller's gemm failed \(7\)" if fails else "has a NaN or an infinity"
            with Counted(well, fails), pytest.raises(altgrad.Error, match=words + ".* nothing has changed"):
                one.step()
            assert all(torch.equal(p, old) for p, old in zip(params, before[0]))
            assert all(torch.equal(one.state[p][key], held) for p, old in zip(params, before[1]) for key, held in old.items())
        one.step(), other.step()
    assert all(torch.equal(mine, its) for mine, its in zip(params, others))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("storage", ["buf=bf16", "buf=int8:256:f16,softsign", "buf=bnb8:256",
                                     "buf=ocp.e4m3fn:128", "buf=mxfp8"])
def test_a_narrow_momentum_with_all_that_there_is(kind, storage):
    """Stacks, AdamW beside it, a scaler, a clip, a checkpoint; within what the format leaves of the momentum in float32."""
    shapes = [(64, 256), (256, 64), (24, 40), (2, 64, 128)][:4 if kind is altgrad.optim.Muon else 3] + [(5000,)]
    made = []
    for words in ("", storage):
        params = matrices(*shapes)
        groups = [{"params": params[:-1]}, {"params": params[-1:], "use_muon": False, "lr": 1e-3}]
        optimizer, scaler = kind(groups, lr=0.02, storage=words), torch.amp.GradScaler("cpu", init_scale=8.0)
        for step in range(4):
            give(params, step)
            for param in params:
                param.grad *= 8.0
            params[-1].grad[3] *= float("nan") if step == 2 else 1.0
            before = [param.detach().clone() for param in params]
            scaler.scale(torch.zeros(()))
            scaler.unscale_(optimizer)
            altgrad.clip_grad_norm_(params[-1:], 1.0)
            scaler.step(optimizer)
            scaler.update(8.0)
            assert (step == 2) == all(torch.equal(param, old) for param, old in zip(params, before))
            if step == 1:
                again = kind([{"params": params[:-1]}, {"params": params[-1:], "use_muon": False, "lr": 1e-3}], lr=0.02,
                             storage=words)
                again.load_state_dict(optimizer.state_dict())
                optimizer = again
        made.append(params)
    for exact, narrow in zip(*made):
        stays = exact.dim() == 1 or exact.numel() < 4096 or (kind is altgrad.optim.NorMuon and exact.shape[-1] % 256)
        assert exact.isfinite().all() and (stays or not torch.equal(exact, narrow))
        assert (exact - narrow).norm() <= 0.06 * (3 * 0.02 * exact.numel() ** 0.5), storage
