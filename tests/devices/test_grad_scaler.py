"""altgrad.amp.GradScaler with parameters on several devices: one verdict, one scale, and nobody waits."""

import pytest
import torch
from conftest import KIND
from test_devices import MIXES, give_grads, twins

import altgrad


def scaler_on(params):
    scaler = altgrad.amp.GradScaler(params[0].device.type, init_scale=64.0, growth_interval=2)
    scaler.scale(torch.ones(1, device=params[0].device))
    return scaler


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("bound", [None, 0.5])
def test_bits_scales_and_skips_are_the_cpus(mix, bound):
    params, reference = twins(mix)
    lists = params, reference
    made = [(altgrad.optim.AdamW(of, lr=1e-2, max_grad_norm=bound), scaler_on(of)) for of in lists]
    for step in range(7):
        give_grads(params, reference, scale=64.0)
        if step in (2, 4):  # on one device, by turns
            for of in lists:
                of[step // 2 - 1].grad.view(-1)[-1] = float("inf")
        for optimizer, scaler in made:
            scaler.step(optimizer)
            scaler.update()
        (one, there), (other, here) = made
        assert there.get_scale() == here.get_scale()
        assert there._get_growth_tracker() == here._get_growth_tracker()
    assert one.skipped_steps == other.skipped_steps == 2
    for mine, its in zip(params, reference):
        torch.testing.assert_close(mine.detach().cpu(), its.detach(), rtol=1e-6 if bound else 0.0,
                                   atol=1e-8 if bound else 0.0)


def test_optimizers_on_two_devices_share_a_scale():
    params = [torch.nn.Parameter(torch.ones(9, device=f"{KIND}:{i}")) for i in range(2)]
    optimizers = [altgrad.optim.SGD([p], lr=1.0) for p in params]
    scaler, scales = scaler_on(params), []
    for step in range(4):
        for place, p in enumerate(params):
            p.grad = torch.full_like(p, float("nan") if place == step else 64.0)
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [32.0, 16.0, 16.0, 32.0]
    assert [optimizer.skipped_steps.item() for optimizer in optimizers] == [1, 1]


def test_nobody_waits(notes):
    params, reference = twins("two")
    optimizer = altgrad.optim.AdamW(params, lr=1e-2, max_grad_norm=1.0)
    scaler = scaler_on(params)
    for _ in range(3):
        give_grads(params, reference)
        notes()
        scaler.step(optimizer)
        scaler.update()
        skipped = optimizer.skipped_steps
    assert [note for note in notes() if note.startswith("wait")] == []
    assert skipped.item() == 0


def test_counts_go_on_where_devices_take_turns():
    params = [torch.nn.Parameter(torch.ones(9, device=place)) for place in ("cpu", f"{KIND}:0", f"{KIND}:1")]
    optimizer = altgrad.optim.SGD(params, lr=1.0, statistics=True)
    scaler = scaler_on(params)
    for step in range(9):
        for place, p in enumerate(params):
            p.grad = torch.full_like(p, float("nan")) if step % 3 == place or step == 6 else None
        scaler.step(optimizer)
        scaler.update()
        assert optimizer.skipped_steps == optimizer.statistics().steps == step + 1


def test_a_verdict_outlives_a_hook_that_raises():
    params = [torch.nn.Parameter(torch.ones(9, device=f"{KIND}:{i}")) for i in range(2)]
    first, second = [altgrad.optim.SGD([p], lr=1.0) for p in params]
    scaler = scaler_on(params)

    def fail(*_):
        raise KeyError("a hook")

    second.register_step_post_hook(fail)
    params[0].grad, params[1].grad = torch.ones_like(params[0]), torch.full_like(params[1], float("nan"))
    scaler.step(first)
    with pytest.raises(KeyError):
        scaler.step(second)
    scaler.update()
    assert scaler.get_scale() == 32.0


def test_a_scale_that_changes_between_steps_is_every_devices():
    params = [torch.nn.Parameter(torch.ones(9, device=f"{KIND}:{i}")) for i in range(2)]
    optimizers = [altgrad.optim.SGD([p], lr=1.0) for p in params]
    scaler = scaler_on(params)
    for p in params:
        p.grad = torch.full_like(p, 64.0)
    for scale, kept in ((None, 0.0), (128.0, -0.5), (32.0, -2.5)):
        if scale:
            scaler._scale.fill_(scale)
        for optimizer in optimizers:
            scaler.step(optimizer)
        assert all(p.tolist() == [kept] * 9 for p in params)
        scaler.update()
