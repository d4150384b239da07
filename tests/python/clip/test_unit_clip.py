"""max_grad_norm="agc-unit:F": the norm of each output's weights bounds that of its gradient."""

import copy
import math

import pytest
import torch
import twins

import altgrad

SHAPES = [(7,), (16, 20), (5, 3, 2, 2), (3, 5000), (), (1, 9), (0, 4), (4, 0), (6, 1)]


def clipped(param, factor, eps=1e-3):
    """timm's adaptive_clip_grad, in f64."""
    def norms(x):
        x = x.double()
        return x.norm() if x.dim() <= 1 else x.flatten(1).norm(dim=1).view(-1, *[1] * (x.dim() - 1))
    bound, norm = norms(param).clamp(min=eps) * factor, norms(param.grad)
    return torch.where(norm < bound, param.grad.double(), param.grad.double() * (bound / norm.clamp(min=1e-6)))


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Lion"])
def test_each_outputs_gradient_is_bounded_as_timms(name):
    params, others = twins.make(SHAPES)
    with torch.no_grad():
        params[1][3] *= 1e-5
        others[1][3] *= 1e-5
    ours = getattr(altgrad.optim, name)(params, lr=0.01, max_grad_norm="agc-unit:0.1")
    plain = getattr(altgrad.optim, name)(others, lr=0.01)
    for step in range(5):
        twins.give_grads(params, others, scale=[10.0, 0.05][step % 2])
        for other in others:
            other.grad = clipped(other, 0.1).float()
        ours.step(), plain.step()
        assert ours.grad_norm is None
        for mine, other in zip(params, others):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-7)


def test_a_unit_with_nan_is_nan_as_timms():
    """What is not finite is not clipped away, nor left unclipped."""
    param = torch.nn.Parameter(torch.ones(4, 3))
    param.grad = torch.tensor([[1e3, 1e3, 1e3], [1e3, math.nan, 1e3], [0.1, 0.0, 0.0], [1e3, math.inf, 1e3]])
    wanted = param.detach() - clipped(param, 0.1).float()
    altgrad.optim.SGD([param], lr=1.0, max_grad_norm="agc-unit:0.1").step()
    torch.testing.assert_close(param.detach(), wanted, equal_nan=True)
    assert param[1].isnan().all() and param[0].isfinite().all() and param[3].isnan().tolist() == [False, True, False]


def apart(params):
    """A parameter for each unit, with the same numbers."""
    return [torch.nn.Parameter(row.detach().clone()) for param in params
            for row in (param if param.dim() > 1 else [param])]


@pytest.mark.parametrize("dtype, storage", [(torch.float32, None), (torch.bfloat16, None),
                                            (torch.bfloat16, "master=f32")], ids=str)
def test_a_unit_has_the_bits_of_a_parameter_of_its_own(dtype, storage):
    params, = twins.make(SHAPES[:4], dtype, count=1)
    rows = apart(params)
    ours, theirs = [altgrad.optim.AdamW(of, lr=0.1, storage=storage, max_grad_norm=bound)
                    for of, bound in ((params, "agc-unit:0.05"), (rows, "agc:0.05"))]
    for _ in range(4):
        twins.give_grads(params)
        for row, grad in zip(rows, apart([param.grad for param in params])):
            row.grad = grad.detach()
        ours.step(), theirs.step()
    for mine, row in zip(apart(params), rows):
        assert torch.equal(mine, row)
    assert {float(ours.state[param]["step"]) for param in params} == {4.0}


@pytest.mark.parametrize("storage", ["param=bf16,stochastic m=bf16,stochastic", "m=ocp.e4m3fn:64 v=ocp.e5m2:64"])
def test_draws_and_blocks_are_the_parameters_where_nothing_is_clipped(storage):
    dtype = torch.bfloat16 if "stochastic" in storage else torch.float32
    params, others = twins.make([(16, 20 * 64), (5,)], dtype)
    seed = dict(seed=7) if "stochastic" in storage else {}
    ours, plain = [altgrad.optim.AdamW(of, lr=0.1, storage=storage, max_grad_norm=bound, **seed)
                   for of, bound in ((params, "agc-unit:1e9"), (others, "agc:1e9"))]
    for _ in range(3):
        twins.give_grads(params, others)
        ours.step(), plain.step()
    for mine, other in zip(params, others):
        assert torch.equal(mine, other)
        for key, state in plain.state[other].items():
            assert torch.equal(ours.state[mine][key].view(torch.uint8) if state.dim() else ours.state[mine][key],
                               state.view(torch.uint8) if state.dim() else state), key


def test_a_skipped_step_counts_for_no_unit_and_groups_have_their_rates():
    params, others = twins.make([(6, 5), (4, 3, 2)])
    groups = lambda of: [dict(params=of[:1], lr=0.5), dict(params=of[1:], lr=0.1)]
    ours = altgrad.optim.AdamW(groups(params), max_grad_norm="agc-unit:0.1")
    plain = altgrad.optim.AdamW(groups(others))
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0)
    for step in range(4):
        twins.give_grads(params, others)
        for mine, other in zip(params, others):
            other.grad = clipped(other, 0.1).float()
            mine.grad *= scaler.get_scale()
        if step == 1:
            params[1].grad[3, 0, 0] = math.inf
        scaler.scale(torch.zeros(()))
        scaler.step(ours), scaler.update()
        if step != 1:
            plain.step()
    for mine, other in zip(params, others):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
        assert ours.state[mine]["step"] == 3


def test_units_are_those_of_the_contiguous_twin_in_every_order_of_memory():
    params, others = twins.make([(6, 4, 3, 3)])
    with torch.no_grad():
        lasting = torch.nn.Parameter(params[0].to(memory_format=torch.channels_last))
        wide = torch.nn.Parameter(torch.randn(4, 6).t())
    ours = altgrad.optim.SGD([lasting], lr=0.1, max_grad_norm="agc-unit:0.1")
    plain = altgrad.optim.SGD(others, lr=0.1, max_grad_norm="agc-unit:0.1")
    twins.give_grads([lasting], others)
    ours.step(), plain.step()
    assert torch.equal(lasting, others[0])
    tall = torch.nn.Parameter(wide.detach().clone(memory_format=torch.contiguous_format))
    for param in (wide, tall):
        param.grad = torch.ones_like(param)
        altgrad.optim.AdamW([param], max_grad_norm="agc-unit:0.1").step()
    assert torch.equal(wide, tall) and not wide.is_contiguous()


def test_norms_of_whole_parameters_beside_units():
    params, others = twins.make([*SHAPES, (5000, 2)])
    ours = altgrad.optim.LAMB(params, lr=0.01, max_grad_norm="agc-unit:0.1", statistics=True)
    plain = altgrad.optim.LAMB(others, lr=0.01)
    for step in range(3):
        twins.give_grads(params, others, scale=[10.0, 0.05][step % 2])
        before = [param.detach().clone() for param in params]
        for other in others:
            other.grad = clipped(other, 0.1).float()
        ours.step(), plain.step()
        found = ours.statistics()
        for index, (mine, other, old) in enumerate(zip(params, others, before)):
            torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-7)
            norms = dict(grad_norm=mine.grad, param_norm=old, update_norm=mine.detach() - old)
            for key, of in norms.items():
                torch.testing.assert_close(getattr(found, key)[index], of.detach().norm(), rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("storage", ["copy=ocp.e4m3fn,current", "copy=nvfp4"])
def test_a_scale_of_a_whole_parameter_is_that_of_the_parameter_alone(storage):
    params, others = twins.make([(16, 64), (3, 4128), (9,)])
    ours, plain = [altgrad.optim.AdamW(of, lr=0.1, storage=storage, max_grad_norm=bound)
                   for of, bound in ((params, "agc-unit:1e9"), (others, "agc:1e9"))]
    for _ in range(2):
        twins.give_grads(params, others)
        ours.step(), plain.step()
    for mine, other in zip(params, others):
        assert torch.equal(mine, other)
        for key, state in plain.state[other].items():
            assert bytes(ours.state[mine][key].flatten().view(torch.uint8)) == bytes(state.flatten().view(torch.uint8)), key


def test_flips_of_a_whole_parameter_are_counted_once():
    params, others = twins.make([(16, 20), (5, 4100)])
    ours, plain = [altgrad.optim.GridOptim(of, lr=0.1, max_grad_norm=bound, seed=3)
                   for of, bound in ((params, "agc-unit:1e9"), (others, None))]
    for _ in range(2):
        twins.give_grads(params, others)
        found = [tuple(map(float, optimizer.step())) for optimizer in (ours, plain)]
        assert found[0] == found[1] and found[0][0] > 0


def test_units_are_whole_blocks():
    params, = twins.make([(64, 65)], count=1)
    optimizer = altgrad.optim.AdamWFp8(params, max_grad_norm="agc-unit:0.1")
    twins.give_grads(params)
    with pytest.raises(ValueError, match=r"parameter \d of group 0: .* \(64, 65\) .*has 65 elements for each index of dimension 0, which is no multiple of the 256"):
        optimizer.step()
    assert not optimizer.state


def test_files_copies_and_other_bounds_go_on():
    params, others = twins.make([(6, 5), (3,)])
    one = altgrad.optim.AdamW(params, lr=0.1, max_grad_norm="agc-unit:0.1")
    two = altgrad.optim.AdamW(others, lr=0.1, max_grad_norm=1.0)
    twins.give_grads(params, others)
    one.step()
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    with torch.no_grad():
        for mine, other in zip(params, others):
            other.copy_(mine)
    third = copy.deepcopy(two)
    for bound in ("agc-unit:0.1", "agc:0.1", "agc-unit:0.01", None):
        twins.give_grads(params, others, third.param_groups[0]["params"])
        for optimizer in (one, two, third):
            optimizer.max_grad_norm = bound
            optimizer.step()
    for mine, other, copied in zip(params, others, third.param_groups[0]["params"]):
        assert torch.equal(mine, other) and torch.equal(mine, copied)
