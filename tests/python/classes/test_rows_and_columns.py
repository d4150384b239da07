"""Rules with numbers per row and per column of a matrix, beside float64 arithmetic."""

import pytest
import torch

import altgrad

RULE = """
rule factored(param w, grad g, row r, column c, column most, state m, lr = 0.1, beta = 0.9)
  g2 = g * g + 1e-12
  r = lerp(f32(r), mean(g2 over row), 1 - beta)
  c = lerp(c, mean(g2 over column), 1 - beta)
  most = maximum(0.5 * most, absmax(g over column))
  u = g / sqrt(f32(r / mean(r over tensor)) * c)
  m = lerp(m, u / (most + 1), 1 - beta)
  w = w - lr * m / f32(maximum(1, rms(u)))
"""
SHAPES = [(5, 7), (64, 33), (100, 1), (1, 40), (33, 129), (3, 4097), (6, 2, 9), (17,), (), (0, 4), (40, 0)]


def reference(state, w, g):
    """A step in float64, of a tensor as one matrix."""
    if g.numel() == 0:
        return
    g = g.double().reshape(-1, g.shape[-1] if g.dim() else 1)
    zeros = {"r": (len(g), 1), "c": (1, g.shape[1]), "most": (1, g.shape[1]), "m": g.shape}
    r, c, most, m = [state.setdefault(name, torch.zeros(size, dtype=torch.float64)) for name, size in zeros.items()]
    r.lerp_((g * g + 1e-12).mean(1, keepdim=True), 0.1)
    c.lerp_((g * g + 1e-12).mean(0, keepdim=True), 0.1)
    most.copy_(torch.maximum(0.5 * most, g.abs().amax(0, keepdim=True)))
    u = g / (r / r.mean() * c).sqrt()
    m.lerp_(u / (most + 1), 0.1)
    w.sub_((0.1 * m / max(1.0, u.pow(2).mean().sqrt())).reshape(w.shape))


def made(shapes=SHAPES, dtype=torch.float32, storage="", **words):
    """(parameters, their optimizer)."""
    params = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]
    return params, altgrad.optim.FromRule(RULE, storage=storage)(params, **words)


def give(params, scale=1.0):
    for place, param in enumerate(params):
        param.grad = (torch.randn(param.shape) * scale * (place + 1)).to(param.dtype)


def test_it_is_what_float64_says():
    params, optimizer = made()
    wholes, states = [param.detach().double() for param in params], [{} for _ in params]
    for _ in range(6):
        give(params)
        for param, whole, state in zip(params, wholes, states):
            reference(state, whole, param.grad)
        optimizer.step()
    for param, whole, state in zip(params, wholes, states):
        torch.testing.assert_close(param.detach().double(), whole, rtol=1e-5, atol=3e-6)
        for name in ("r", "c", "most") if param.numel() else ():
            torch.testing.assert_close(optimizer.state[param][name].double().flatten(), state[name].flatten(), rtol=1e-5, atol=0)


def test_states_have_the_shapes_of_rows_and_columns_in_float32():
    params, optimizer = made([(6, 5), (2, 3, 5), (4,), ()], torch.bfloat16)
    give(params)
    optimizer.step()
    shapes = [(tuple(optimizer.state[param]["r"].shape), tuple(optimizer.state[param]["c"].shape)) for param in params]
    assert shapes == [((6, 1), (1, 5)), ((2, 3, 1), (1, 1, 5)), ((1,), (4,)), ((), ())]
    assert {optimizer.state[param][name].dtype for param in params for name in "rc"} == {torch.float32}


@pytest.mark.parametrize("turn", [lambda whole: whole.t().contiguous().t(), lambda whole: torch.zeros(9, 14)[:, ::2].copy_(whole)])
def test_a_strided_matrix_has_the_bits_of_its_contiguous_twin(turn):
    whole = torch.randn(9, 7)
    twins = [torch.nn.Parameter(whole.clone()), torch.nn.Parameter(turn(whole))]
    optimizers = [altgrad.optim.FromRule(RULE)([twin]) for twin in twins]
    for _ in range(3):
        grad = torch.randn(9, 7)
        for twin, optimizer in zip(twins, optimizers):
            twin.grad = grad if twin is twins[0] else turn(grad)
            optimizer.step()
    assert torch.equal(*twins) and not twins[1].is_contiguous()


@pytest.mark.parametrize("storage", ["", "master=f32", "m=bnb8:256", "master=f32 copy=ocp.e4m3fn"])
def test_a_run_goes_on_from_a_file_with_the_same_bits(storage):
    torch.manual_seed(1)
    shapes = [(16, 256), (40, 512), (256,)]
    whole, one = made(shapes, torch.bfloat16, storage, max_grad_norm=1.0)
    half = [torch.nn.Parameter(param.detach().clone()) for param in whole]
    two = type(one)(half, max_grad_norm=1.0)
    for step in range(6):
        if step == 3:
            saved, two = two.state_dict(), type(one)(half, max_grad_norm=1.0)
            two.load_state_dict(saved)
        give(whole)
        for param, other in zip(whole, half):
            other.grad = param.grad.clone()
        one.step(), two.step()
    assert all(map(torch.equal, whole, half))


def test_a_skipped_step_and_a_parameter_without_a_gradient_change_nothing():
    params, optimizer = made([(33, 5), (70, 40)])
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(torch.ones(()))
    give(params)
    optimizer.step()
    before = [[value.clone() for value in (param, *optimizer.state[param].values())] for param in params]
    give(params, 4.0)
    params[0].grad[2, 3] = torch.inf
    scaler.step(optimizer)
    scaler.update()
    params[0].grad = None
    give(params[1:])
    after = [[value.clone() for value in (param, *optimizer.state[param].values())] for param in params]
    assert all(torch.equal(one, other) for pair in zip(before, after) for one, other in zip(*pair))
    optimizer.step()
    assert torch.equal(params[0], before[0][0]) and not torch.equal(params[1], before[1][0])


def test_narrow_columns_are_refused_in_words():
    with pytest.raises(ValueError, match="'c=bf16' is of a state per column of rule @factored, .*; leave c= out"):
        made([(4, 4)], storage="c=bf16")
