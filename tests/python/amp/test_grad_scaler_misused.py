"""What a GradScaler of ours refuses, in words, and what it skips; nothing is half-written."""

import math

import pytest
import torch
import twins

import altgrad


def one(**options):
    params, = twins.make([(8,)], count=1)
    scaler = altgrad.amp.GradScaler("cpu", init_scale=8.0, **options)
    scaler.scale(params[0].sum()).backward()
    return params, altgrad.optim.AdamW(params, lr=0.1), scaler


def test_order_of_calls():
    _, optimizer, scaler = one()
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        scaler.update()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step"):
        scaler.unscale_(optimizer)
    scaler.update()
    for arguments in ((lambda: 1.0,), {"closure": lambda: 1.0}):
        with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
            scaler.step(optimizer, *arguments) if type(arguments) is tuple else \
                scaler.step(optimizer, **arguments)
    with pytest.raises(AssertionError, match="_scale is None"):
        altgrad.amp.GradScaler("cpu").step(optimizer)


@pytest.mark.parametrize("options, words", [
    (dict(init_scale=0.0), "init_scale"), (dict(init_scale=math.inf), "init_scale"),
    (dict(init_scale=-1.0), "init_scale"), (dict(init_scale=math.nan), "init_scale"),
    (dict(init_scale=1e-46), "init_scale"), (dict(init_scale=1e39), "init_scale"),
    (dict(hysteresis=0), "hysteresis"), (dict(growth_interval=0), "growth_interval"),
    (dict(min_scale=4.0, max_scale=2.0), "min_scale"), (dict(min_scale=math.nan), "min_scale"),
    (dict(variant="apex"), "variant")])
def test_numbers_that_are_none(options, words):
    with pytest.raises(ValueError, match=words):
        altgrad.amp.GradScaler("cpu", **options)


@pytest.mark.parametrize("scale", [0.0, -8.0, math.inf, math.nan])
def test_a_scale_that_is_none_skips_the_step(scale):
    """A tensor's number is not looked at before; gradients of a scale of 0 are 0 and would become NaN."""
    params, optimizer, scaler = one()
    scaler.step(optimizer)
    scaler.update(torch.tensor(scale))
    kept = [params[0].detach().clone(), *[v.clone() for v in optimizer.state[params[0]].values()]]
    params[0].grad.zero_()
    scaler.step(optimizer)
    scaler.update()
    assert all(map(torch.equal, kept, [params[0], *optimizer.state[params[0]].values()]))
    assert optimizer.skipped_steps == 1
    with pytest.raises(ValueError, match="new_scale"):
        scaler.update(scale)


def test_a_new_scale_is_taken_and_what_was_found_is_forgotten():
    params, optimizer, scaler = one(growth_interval=1)
    params[0].grad[0] = math.inf
    scaler.step(optimizer)
    scaler.update(32)
    assert scaler.get_scale() == 32.0
    params[0].grad.fill_(32.0)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 64.0


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_not_finite_at_any_place_is_found(bad):
    param = torch.nn.Parameter(torch.zeros(3 * 4096 + 5, dtype=torch.float32))
    optimizer, scaler = altgrad.optim.SGD([param], lr=1.0), altgrad.amp.GradScaler("cpu", 1.0, 2.0, 0.5)
    scaler.scale(param.sum()).backward()
    param.grad.zero_()
    places = torch.randperm(param.numel())[:3334].tolist()
    for step, place in enumerate(places):
        param.grad[place] = bad
        scaler.step(optimizer)
        scaler.update(1.0)
        param.grad[place] = 0.0
    assert optimizer.skipped_steps == len(places) and not param.detach().any()


def test_squares_that_overflow_are_no_gradient_that_is_not_finite():
    params, = twins.make([(8,)], count=1)
    optimizer = altgrad.optim.SGD(params, lr=1.0, max_grad_norm=1.0)
    scaler = altgrad.amp.GradScaler("cpu", init_scale=1.0)
    scaler.scale(params[0].sum()).backward()
    params[0].grad.fill_(1e30)
    before = params[0].detach().clone()
    scaler.step(optimizer)
    scaler.update()
    assert optimizer.grad_norm == math.inf and optimizer.skipped_steps == 0
    assert scaler.get_scale() == 1.0 and torch.equal(params[0], before)


def test_disabled_passes_everything_through():
    params, optimizer, scaler = one(enabled=False)
    assert scaler.scale(3.0) == 3.0 and scaler.state_dict() == {}
    assert scaler.step(optimizer, lambda: 5.0) == 5.0
    scaler.update()


def test_without_a_gradient_a_step_is_clean():
    params, optimizer, scaler = one(growth_interval=1)
    params[0].grad = None
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 16.0


def test_scale_of_the_optimizer_itself_joins_the_scalers():
    a, b = twins.make([(8,)])
    optimizer, scaler = altgrad.optim.SGD(a, lr=1.0), altgrad.amp.GradScaler("cpu", 8.0)
    scaler.scale((3.0 * a[0]).sum()).backward()
    optimizer.grad_scale = torch.tensor(4.0)
    scaler.step(optimizer)
    torch.testing.assert_close(a[0], b[0] - 3.0 / 4.0)
    scaler.update()


@pytest.mark.parametrize("entry", [{"min_scale": math.nan}, {"max_scale": -1.0}, {"hysteresis": 0},
                                   {"hysteresis": 1.5}])
def test_a_file_with_numbers_that_are_none_changes_nothing(entry):
    _, _, scaler = one()
    kept = scaler.state_dict()
    with pytest.raises(ValueError, match="hysteresis|min_scale"):
        scaler.load_state_dict({**kept, "scale": 3.0, **entry})
    assert scaler.state_dict() == kept
