"""A GPU's step whose products are wrong, on the test driver: it is skipped and counted, and nobody waits for it."""

import os

import altgrad
import gemms
import pytest
import torch

pytestmark = pytest.mark.skipif(os.environ.get("ALTGRAD_STANDS_FOR_CUDA") != "cpu", reason="the CPU raises an error")
KINDS = altgrad.optim.Muon, altgrad.optim.NorMuon


class Wrong(gemms.Products):
    """torch's products, of which the one with this number has a NaN for its first element."""

    def __init__(self, number):
        super().__init__()
        self._left = number

    def call(self, gemm, context):
        status = super().call(gemm, context)
        if self._left == 0:
            gemms.spoil(gemm)
        self._left -= 1
        return status


def made(kind, **given):
    draw = torch.Generator().manual_seed(1)
    params = [torch.nn.Parameter(torch.randn(shape, generator=draw)) for shape in ((24, 40), (40, 24), (2, 8, 16), (8,))]
    groups = [{"params": params[:3]}, {"params": params[3:], "use_muon": False}]
    return params, kind(groups, lr=0.02, ns_steps=2, **given)


def give(params, step):
    for index, param in enumerate(params):
        param.grad = torch.randn(param.shape, generator=torch.Generator().manual_seed(100 * step + index))


def bits(params, optimizer):
    return [tensor.detach().clone() for param in params for tensor in (param, *optimizer.state[param].values())]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [0, 5, 11])
def test_a_step_with_a_wrong_product_changes_nothing_and_is_counted(kind, number):
    """Not AdamW's set, and no count of steps; the next step is the one that was skipped."""
    (params, one), (others, other) = made(kind), made(kind)
    for step in range(2):
        give(params, step), give(others, step)
        if step:
            before = bits(params, one)
            with Wrong(number):
                one.step()
            assert all(map(torch.equal, before, bits(params, one)))
            assert one.skipped_steps == 1
        one.step(), other.step()
    assert all(map(torch.equal, bits(params, one), bits(others, other)))
    assert one.skipped_steps == 1 and other.skipped_steps == 0


def test_a_gradient_that_is_not_finite_goes_the_way_of_torch():
    params, optimizer = made(altgrad.optim.Muon)
    give(params, 0)
    params[0].grad[3, 4] = float("inf")
    optimizer.step()
    assert params[0].isnan().any() and all(param.isfinite().all() for param in params[1:])
    assert optimizer.skipped_steps == 0


def test_beside_a_loss_scaler_it_is_no_overflow():
    params, optimizer = made(altgrad.optim.Muon)
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0)
    for step, number in enumerate((99, 3, 99)):
        give(params, step)
        for param in params:
            param.grad *= 4.0
        before = bits(params, optimizer)
        scaler.scale(torch.zeros(()))
        with Wrong(number):
            scaler.step(optimizer)
        scaler.update()
        assert all(map(torch.equal, before, bits(params, optimizer))) == (step == 1) or step == 0
    assert optimizer.skipped_steps == 1 and scaler.get_scale() == 4.0
