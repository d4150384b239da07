"""Devices without kernels, as ROCm's GPUs: torch's class of the same name steps what is there."""

import pytest
import torch
import twins

import altgrad
from altgrad._binding import layout, device_context
from altgrad.optim import _fallback


def test_cuda_is_no_device_of_ours_where_torch_is_for_rocm(monkeypatch):
    assert device_context.is_known(torch.device("cuda", 0))
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert not device_context.is_known(torch.device("cuda", 0)) and device_context.is_known(torch.device("cpu"))


@pytest.fixture
def elsewhere(monkeypatch):
    """The CPU stands for a device without kernels."""
    for module in (layout, _fallback):
        monkeypatch.setattr(module, "is_known", lambda device: False)


@pytest.mark.parametrize("name, kwargs", [("AdamW", {}), ("SGD", dict(momentum=0.9)), ("RMSprop", {})])
def test_torchs_class_steps_there(name, kwargs, elsewhere):
    ours, theirs = twins.make([(5,), (3, 4)])
    optimizers = getattr(altgrad.optim, name)(ours, lr=0.1, **kwargs), getattr(torch.optim, name)(theirs, lr=0.1, **kwargs)
    with pytest.warns(UserWarning, match="parameter 0 of group 0 is on cpu, where there are no kernels, so torch.optim"):
        for seed in range(3):
            for params, optimizer in zip((ours, theirs), optimizers):
                torch.manual_seed(seed)
                twins.give_grads(params)
                optimizer.step()
    assert all(map(torch.equal, ours, theirs))


def test_a_class_of_ours_alone_refuses_in_words(elsewhere):
    params, = twins.make([(5,)], count=1)
    twins.give_grads(params)
    with pytest.raises(RuntimeError, match="runs on the CPU and on NVIDIA's GPUs; a parameter is on cpu"):
        altgrad.optim.Lion(params).step()
