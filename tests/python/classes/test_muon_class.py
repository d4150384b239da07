"""altgrad.optim.Muon beside torch.optim.Muon and torch.optim.AdamW."""

import copy
import ctypes
import os

import altgrad
from altgrad.optim import NewtonSchulz
import numpy as np
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


@pytest.mark.parametrize("named", [False, True])
def test_a_function_says_which_parameters_take_muon(named):
    params, others = matrices((6, 4), (5,), (3, 8)), matrices((6, 4), (5,), (3, 8))
    given = [(f"p{place}", param) for place, param in enumerate(params)] if named else iter(params)
    one = altgrad.optim.Muon(given, lr=0.1, use_muon=lambda param: param.ndim == 2)
    other = altgrad.optim.Muon([{"params": others[::2]}, {"params": others[1:2], "use_muon": False, "lr": 1e-3}], lr=0.1)
    for param, its in zip(params, others):
        param.grad, its.grad = torch.ones_like(param), torch.ones_like(its)
    one.step(), other.step()
    assert all(map(torch.equal, params, others))
    assert [group["use_muon"] for group in one.param_groups] == [True, False]
    with pytest.raises(ValueError, match="group 2, parameter 0 has the shape"):
        more = matrices((3,), (3, 3))
        one.add_param_group({"params": [*zip("ab", more)] if named else more, "use_muon": lambda param: param.ndim == 1})
    assert len(one.param_groups) == 2


def test_a_checkpoint_of_torch_loads_and_torch_loads_ours():
    ours, theirs = matrices((6, 9)), matrices((6, 9))
    one, other = altgrad.optim.Muon(ours), torch.optim.Muon(theirs)
    step_both(ours, theirs, (one, other), 0)
    back = torch.optim.Muon(matrices((6, 9)))
    back.load_state_dict(one.state_dict())
    one.load_state_dict(other.state_dict())
    step_both(ours, theirs, (one, other), 1)
    assert torch.equal(one.state[ours[0]]["momentum_buffer"], other.state[theirs[0]]["momentum_buffer"])


def test_what_a_file_does_not_say_stays_as_the_group_has_it():
    """torch's files know no use_muon: a group of AdamW would be Muon's after a load."""
    ours, theirs = matrices((6, 9)), matrices((6, 9))
    one = altgrad.optim.Muon([{"params": ours, "use_muon": False}])
    other = torch.optim.AdamW(theirs, fused=True)
    step_both(ours, theirs, (other,), 0)
    ours[0].data.copy_(theirs[0].data)
    one.load_state_dict(copy.deepcopy(other.state_dict()))
    step_both(ours, theirs, (one, other), 1)
    assert torch.equal(ours[0], theirs[0]) and set(one.state[ours[0]]) == {"step", "exp_avg", "exp_avg_sq"}
    split = altgrad.optim.Muon(ours, split=3, orthogonalize=NewtonSchulz(dtype=torch.float32))
    split.load_state_dict(torch.optim.Muon(theirs, momentum=0.9).state_dict())
    assert [split.param_groups[0][key] for key in ("split", "ns_dtype", "momentum")] == [3, torch.float32, 0.9]


@pytest.mark.parametrize("value", [torch.randn(6, 9).t(), torch.randn(2, 6, 9).mT, torch.randn(9, 12)[:, ::2]],
                         ids=["transposed", "a stack of transposed", "every second column"])
def test_a_matrix_may_lie_otherwise_in_memory(value):
    """It is stepped as one that lies row by row."""
    ours, theirs = [[torch.nn.Parameter(of)] for of in (value, value.clone(memory_format=torch.contiguous_format))]
    assert not ours[0].is_contiguous()
    pair = [altgrad.optim.Muon(params, max_grad_norm=1.0) for params in (ours, theirs)]
    for _ in range(3):
        grad = torch.randn(value.shape)
        for params, optimizer in zip((ours, theirs), pair):
            params[0].grad = grad.clone()
            optimizer.step()
    assert torch.equal(ours[0], theirs[0]) and not ours[0].is_contiguous()
    pair[0].load_state_dict(pair[1].state_dict())


@pytest.mark.parametrize("given, words", [
    ({"params": [torch.nn.Parameter(torch.zeros(3))]}, r"0 has the shape \(3,\), no matrix and no stack .* use_muon=False"),
    ({"params": matrices((2, 3)), "ns_steps": 100}, "ns_steps is 100, no whole number of 1 to 99"),
    ({"params": matrices((2, 3)), "adjust_lr_fn": "rms"}, "adjust_lr_fn is 'rms', none of None, 'original'"),
    ({"params": matrices((2, 3)), "momentum": 1.0}, "momentum is 1.0, not from 0 and below 1"),
    ({"params": matrices((2, 3)), "ns_coefficients": {}}, "ns_coefficients is {}, neither three finite numbers nor"),
    ({"params": matrices((2, 3)), "flatten": "no"}, "flatten is 'no', none of None, True, False"),
    ({"params": matrices((2, 3)), "nesterov": "False"}, "nesterov is 'False', none of True, False"),
    ({"params": matrices((3,)), "use_muon": "False"}, "group 0: use_muon is 'False', none of True, False"),
    ({"params": matrices((3,)), "use_muon": None}, "group 0: use_muon is None, none of True, False"),
], ids=["vector", "steps", "scale", "momentum", "no coefficients", "flatten", "nesterov", "a word", "nothing"])
def test_what_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        altgrad.optim.Muon(**given)


def test_coefficients_may_be_an_array():
    """As altgrad.matrices.newton_schulz takes it."""
    params = matrices((6, 9)), matrices((6, 9))
    for (param,), given in zip(params, (np.array([3.4445, -4.775, 2.0315]), (3.4445, -4.775, 2.0315))):
        param.grad = torch.ones(6, 9)
        optimizer = altgrad.optim.Muon([param], ns_coefficients=given)
        optimizer.step(), optimizer.step()
    assert torch.equal(params[0][0], params[1][0])


def test_complex_parameters_raise_what_torch_raises():
    with pytest.raises(RuntimeError, match="Muon does not support complex parameters.* pass torch.view_as_real"):
        altgrad.optim.Muon([torch.zeros(3, 3, dtype=torch.complex64, requires_grad=True)])


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" not in os.environ, reason="the CPU has a kernel of altgrad's")
def test_a_gpu_without_anything_that_multiplies_changes_nothing(monkeypatch):
    param, = matrices((4, 6))
    param.grad, before = torch.ones_like(param), param.detach().clone()
    optimizer = altgrad.optim.Muon([param])
    multiply = ctypes.cast(core().altgrad_core_multiply, ctypes.c_void_p)
    library().altgrad_set_gemm(None, None, None)
    monkeypatch.setenv("ALTGRAD_CUBLASLT", "/nowhere/libcublasLt.so.13")
    try:
        with pytest.raises(altgrad.Error, match="nobody who does it on the GPU: give a function to altgrad_set_gemm"):
            optimizer.step()
    finally:
        library().altgrad_set_gemm(None, multiply, None)
    assert torch.equal(param, before)
    optimizer.step()
    assert not torch.equal(param, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(3, 24, 40), (2, 33, 7), (1, 16, 16), (4, 1, 5)], ids=str)
def test_a_stack_is_its_matrices(shape, dtype):
    """Experts in one tensor of three dimensions are as many parameters, beside a matrix and a vector.

    In float32 the library's bits depend on where a matrix begins, and those of a stack have no gaps.
    """
    stack, apart = matrices(shape, (12, 9), (7,)), matrices(*[shape[1:]] * shape[0], (12, 9), (7,))
    for at, param in enumerate(apart):
        param.data.copy_(stack[0][at] if at < shape[0] else stack[at - shape[0] + 1])
    groups = [[{"params": params[:-1]}, {"params": params[-1:], "use_muon": False}] for params in (stack, apart)]
    one, other = (altgrad.optim.Muon(of, lr=0.02, orthogonalize=NewtonSchulz(dtype=dtype)) for of in groups)
    for step in range(3):
        new = matrices(shape, (12, 9), (7,), seed=100 + step)
        for param, gradient in zip(stack, new):
            param.grad = gradient.detach().clone()
        for at, param in enumerate(apart):
            param.grad = (new[0][at] if at < shape[0] else new[at - shape[0] + 1]).detach().clone()
        for optimizer in (one, other):
            optimizer.step()
    assert one.state[stack[0]]["momentum_buffer"].shape == shape
    assert torch.equal(one.state[stack[0]]["momentum_buffer"],
                       torch.stack([other.state[param]["momentum_buffer"] for param in apart[:shape[0]]]))
    for mine, its in zip([*stack[0], *stack[1:]], apart):
        torch.testing.assert_close(mine, its.data, rtol=0, atol=0 if dtype == torch.bfloat16 else 5e-7)


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0, 8, 8), (3, 0, 8), (3, 8, 0)])
def test_what_has_no_elements_is_left_alone(shape):
    """Also a stack of no matrices, which have a shape all the same."""
    params, alone = matrices(shape, (6, 4)), matrices((0,), (6, 4))[1:]
    for param in (*params, *alone):
        param.grad = torch.ones_like(param)
    for some in (params, alone):
        altgrad.optim.Muon(some).step()
    assert torch.equal(params[1], alone[0])
    altgrad.optim.Muon(params[:1]).step()
