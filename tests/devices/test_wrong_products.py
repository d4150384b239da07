"""A product that is wrong on one device skips the step of all devices."""

import ctypes
import os
import sys
from pathlib import Path

import pytest
import torch
from conftest import KIND

import altgrad
from altgrad._library import library

sys.path.append(str(Path(__file__).parents[1] / "python"))
import gemms

pytestmark = pytest.mark.skipif("FAKE_CUDA_EAGER" not in os.environ, reason="the device would multiply after the NaN is there")


class Products(gemms.Products):
    """torch's products, of which each has a NaN for its first element while `wrong` holds."""

    wrong = False

    def call(self, gemm, context):
        status = super().call(gemm, context)
        if self.wrong:
            gemms.spoil(gemm)
        return status

    def multiply_for(self, optimizer):
        for table in optimizer._built.tables:
            library().altgrad_set_gemm(table.plan.handle, ctypes.cast(self._function, ctypes.c_void_p), None)


@pytest.mark.parametrize("bound", [None, 0.5])
@pytest.mark.parametrize("places", [(f"{KIND}:0", f"{KIND}:1"), (f"{KIND}:1", f"{KIND}:0"), (f"{KIND}:0", "cpu")])
def test_the_other_device_has_no_matrix(bound, places):
    params = [torch.nn.Parameter(torch.randn(shape).to(place)) for shape, place in zip([(24, 40), (7,)], places)]
    groups = [{"params": params[:1]}, {"params": params[1:], "use_muon": False}]
    optimizer, products = altgrad.optim.Muon(groups, lr=0.02, ns_steps=2, max_grad_norm=bound), Products()
    for step in range(3):
        before = [param.detach().clone() for param in params]
        for param in params:
            param.grad = torch.randn(param.shape).to(param.device)
        if step:
            products.multiply_for(optimizer)
        products.wrong = step == 1
        optimizer.step()
        assert [torch.equal(*pair) for pair in zip(params, before)] == [step == 1] * 2
    assert optimizer.skipped_steps == 1
