"""What a step asks of the driver where parameters lie on a GPU: launches, at most one upload, no waiting.

Runs on the test driver only, where the CPU's memory stands for a GPU's.
"""

import ctypes
import os
from contextlib import contextmanager

import pytest
import torch
import twins

import altgrad.optim
from altgrad._binding import device_context

pytestmark = pytest.mark.skipif(
    "ALTGRAD_STANDS_FOR_CUDA" not in os.environ, reason="needs the test driver (ctest -R sm90)")

WAITS = ["cuEventSynchronize", "cuStreamSynchronize", "cuCtxSynchronize", "cuMemFree",
         "cuMemcpyDtoHAsync", "cuMemAlloc", "cuMemHostAlloc", "cuModuleLoadDataEx"]


@pytest.fixture
def driver():
    """Counts the calls of a body, by name."""
    library = ctypes.CDLL("libcuda.so.1")
    library.fakecuda_calls.argtypes = [ctypes.c_char_p]
    library.fakecuda_calls.restype = ctypes.c_int64

    def calls(body):
        library.fakecuda_clear_calls()
        body()
        counts = {name: library.fakecuda_calls(name.encode())
                  for name in [*WAITS, "cuLaunchKernel", "cuLaunchKernelEx", "cuMemcpyHtoDAsync"]}
        assert not any([counts[name] for name in WAITS]), counts
        return counts["cuLaunchKernel"] + counts["cuLaunchKernelEx"], counts["cuMemcpyHtoDAsync"]
    return calls


@contextmanager
def nothing_read():
    """No tensor is read on the host."""
    def refuse(*_):
        raise AssertionError("a tensor of the device was read")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("item", "__float__", "__bool__", "__int__", "tolist", "cpu", "numpy"):
            patch.setattr(torch.Tensor, name, refuse)
        yield


def settled(**options):
    params, = twins.make([(33, 5), (7,), (5000,)], count=1)
    optimizer = altgrad.optim.AdamW(params, **options)
    twins.step((optimizer,), [params], 3)
    return params, optimizer


def test_a_steady_step_uploads_nothing(driver):
    params, optimizer = settled(max_grad_norm=1.0)
    launches, uploads = driver(optimizer.step)
    assert 0 < launches <= 5 and uploads == 0


def test_a_pointer_or_a_number_is_one_upload(driver):
    params, optimizer = settled()
    for group in optimizer.param_groups:
        group["lr"] *= 0.5
    params[1].grad = params[1].grad.clone()
    assert driver(optimizer.step)[1] == 1
    assert driver(optimizer.step)[1] == 0


def test_numbers_in_tensors_are_read_when_the_step_runs(driver):
    lr = torch.tensor(1e-3)
    params, optimizer = settled(lr=lr, foreach=False)
    kept = [p.detach().clone() for p in params]
    lr.fill_(0.0)
    with nothing_read():
        assert driver(optimizer.step)[1] == 0
    assert all(torch.equal(p, k) for p, k in zip(params, kept))
    lr.fill_(0.5)
    with nothing_read():
        assert driver(optimizer.step)[1] == 0
    assert all((p - k).abs().max() > 0.1 for p, k in zip(params, kept))


def test_scale_and_verdict_are_read_on_the_device(driver):
    params, optimizer = settled(fused_amp=True, max_grad_norm=1.0)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor([4.0]), torch.tensor([0.0])
    with nothing_read():
        optimizer.step()
        optimizer.grad_scale = torch.tensor([4.0])  # as GradScaler makes new ones
        assert driver(optimizer.step)[1] == 0
        norm = optimizer.grad_norm
    unscaled = torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in params])) / 4
    torch.testing.assert_close(norm, unscaled)
    kept = [p.detach().clone() for p in params]
    optimizer.found_inf = torch.tensor([1.0])
    with nothing_read():
        optimizer.step()
    assert all(torch.equal(p, k) for p, k in zip(params, kept))
    assert optimizer.state[params[0]]["step"] == 5


def test_a_norm_is_the_users_own():
    params, optimizer = settled(max_grad_norm=1.0)
    first = optimizer.grad_norm
    kept = first.clone()
    twins.give_grads(params, scale=9.0)
    optimizer.step()
    assert torch.equal(first, kept) and not torch.equal(optimizer.grad_norm, kept)


def test_it_is_a_device():
    assert not device_context.DeviceContext(torch.device("cpu")).on_host


def test_norm_in_backward_is_said_to_be_in_the_step():
    a, b = twins.make([(8,), (40_000,)])
    one = altgrad.optim.AdamW(a, lr=0.1, max_grad_norm=0.5, norm_in_backward=True)
    two = altgrad.optim.AdamW(b, lr=0.1, max_grad_norm=0.5)
    twins.give_grads(a, b)
    with pytest.warns(UserWarning, match="norm_in_backward: kernels on GPUs read all gradients"):
        one.step()
    two.step()
    for _ in range(2):
        twins.step([one, two], [a, b])
    assert all(map(torch.equal, a, b)) and not a[1]._post_accumulate_grad_hooks
