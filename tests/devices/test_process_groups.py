"""A process group without a backend for the device of parameters: numbers travel by the host, and parameters are refused."""

import pytest
import torch
import torch.distributed as dist

import altgrad


@pytest.fixture
def gloo():
    """gloo's group, which names the CPU and CUDA's GPUs, and not the device of these tests."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_a_norm_over_ranks_goes_by_the_host(gloo):
    param = torch.nn.Parameter(torch.ones(300, 4, device="privateuseone:0"))
    param.grad = torch.full_like(param, 2.0)
    optimizer = altgrad.optim.AdamW([param], lr=0.1, max_grad_norm=1.0, process_group=gloo)
    optimizer.step()
    assert optimizer.grad_norm.device == param.device and optimizer.grad_norm.item() == pytest.approx(2 * 1200 ** 0.5)


@pytest.mark.parametrize("kind", ["DistAdamW", "DistMuon"])
def test_parameters_that_cannot_travel_are_refused_before_anything_does(gloo, kind):
    param = torch.nn.Parameter(torch.ones(300, 4, device="privateuseone:0"))
    before = param.data_ptr()
    with pytest.raises(ValueError, match="a parameter of shape \\(300, 4\\) is on privateuseone, and process_group exchanges "
                                         "what is on cpu and cuda: move the model, or begin the group with a backend"):
        getattr(altgrad.distributed, kind)([param], lr=0.1)
    assert param.data_ptr() == before
