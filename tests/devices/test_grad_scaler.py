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
