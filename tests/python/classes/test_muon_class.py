"""altgrad.optim.Muon beside torch.optim.Muon and torch.optim.AdamW."""

import ctypes
import os

import altgrad
import pytest
import torch
from altgrad._core import core
from altgrad._library import library


def matrices(*shapes, seed=0):
    made = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=made)) for shape in shapes]


def step_both(ours, theirs, optimizers, step):
    new = [torch.randn(p.shape, generator=torch.Generator().manual_seed(10 * step + i)) for i, p in enumerate(ours)]
    for params in (ours, theirs):
        for param, gradient in zip(params, new):
            param.grad = gradient.clone()
    for optimizer in optimizers:
        optimizer.step()


@pytest.mark.parametrize("given", [{}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw", "lr": 1e-3},
                                   {"momentum": 0.9, "weight_decay": 0.0}], ids=str)
def test_steps_are_those_of_torch_within_bf16(given):
    shapes = (24, 24), (16, 48), (48, 16), (5, 7)
    ours, theirs = matrices(*shapes), matrices(*shapes)
    given = {"lr": 0.02, **given}
    optimizers = altgrad.optim.Muon(ours, **given), torch.optim.Muon(theirs, **given)
    for step in range(10):
        step_both(ours, theirs, optimizers, step)
        for one, other in zip(ours, theirs):
            rows, columns = one.shape
            scale = 0.2 * max(rows, columns) ** 0.5 if given.get("adjust_lr_fn") else max(1.0, rows / columns) ** 0.5
            assert torch.equal(optimizers[0].state[one]["momentum_buffer"],
                               optimizers[1].state[other]["momentum_buffer"])
            assert (one - other).abs().max() <= given["lr"] * scale * 2.0 ** -6
            one.data.copy_(other.data)


def test_a_group_of_adamw_is_adamw_in_the_same_step():
    """Bit for bit, and the matrices do not notice."""
    ours, theirs, alone = matrices((8, 12), (12,), (3, 4, 5)), matrices((8, 12), (12,), (3, 4, 5)), matrices((8, 12))
    adamw = {"lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.01}
    muon = altgrad.optim.Muon([{"params": ours[:1]}, {"params": ours[1:], "use_muon": False, **adamw}], lr=0.02)
    beside = altgrad.optim.Muon(alone, lr=0.02)
    other = torch.optim.AdamW(theirs[1:], fused=True, **adamw)
    for step in range(5):
        step_both(ours, theirs, (muon, other), step)
        alone[0].grad = ours[0].grad.clone()
        beside.step()
    assert all(torch.equal(one, other) for one, other in zip(ours[1:], theirs[1:]))
    assert torch.equal(ours[0], alone[0])
    assert set(muon.state[ours[1]]) == {"step", "exp_avg", "exp_avg_sq"}
    assert set(muon.state[ours[0]]) == {"momentum_buffer"}


def test_a_checkpoint_of_torch_loads_and_torch_loads_ours():
    ours, theirs = matrices((6, 9)), matrices((6, 9))
    one, other = altgrad.optim.Muon(ours), torch.optim.Muon(theirs)
    step_both(ours, theirs, (one, other), 0)
    back = torch.optim.Muon(matrices((6, 9)))
    back.load_state_dict(one.state_dict())
    one.load_state_dict(other.state_dict())
    step_both(ours, theirs, (one, other), 1)
    assert torch.equal(one.state[ours[0]]["momentum_buffer"], other.state[theirs[0]]["momentum_buffer"])


@pytest.mark.parametrize("given, words", [
    ({"params": [torch.nn.Parameter(torch.zeros(3))]}, r"0 has the shape \(3,\), no matrix; .* use_muon=False"),
    ({"params": matrices((2, 3)), "ns_steps": 100}, "ns_steps is 100, no whole number of 1 to 99"),
    ({"params": matrices((2, 3)), "adjust_lr_fn": "rms"}, "adjust_lr_fn is 'rms', none of None, 'original'"),
    ({"params": matrices((2, 3)), "momentum": 1.0}, "momentum is 1.0, not from 0 and below 1"),
    ({"params": [torch.nn.Parameter(torch.zeros(3, 2).t())]}, "lies column by column"),
], ids=["vector", "steps", "scale", "momentum", "transposed"])
def test_what_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        altgrad.optim.Muon(**given)


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" not in os.environ, reason="the CPU has a kernel of altgrad's")
def test_a_gpu_without_a_function_that_multiplies_changes_nothing():
    param, = matrices((4, 6))
    param.grad, before = torch.ones_like(param), param.detach().clone()
    optimizer = altgrad.optim.Muon([param])
    multiply = ctypes.cast(core().altgrad_table_multiply, ctypes.c_void_p)
    library().altgrad_set_gemm(None, None, None)
    try:
        with pytest.raises(altgrad.Error, match="only a function of the caller's does: give it to altgrad_set_gemm"):
            optimizer.step()
    finally:
        library().altgrad_set_gemm(None, multiply, None)
    assert torch.equal(param, before)
    optimizer.step()
    assert not torch.equal(param, before)
