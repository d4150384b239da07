"""Accelerate, and so HF's Trainer, sees a step that was skipped: its schedule waits, as with torch's classes."""

import copy

import pytest
import torch

import altgrad

accelerate = pytest.importorskip("accelerate")


def prepared(optimizers, scalers, clip, **words):
    """(model, accelerated optimizer, schedule) under a scaler on the CPU."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    accelerator = accelerate.Accelerator(cpu=True)
    accelerator.scaler = scalers.GradScaler("cpu", init_scale=2.0**10)
    optimizer = optimizers.AdamW(model.parameters(), lr=0.1, **words)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    accelerated = accelerator.prepare_optimizer(optimizer)
    return accelerator, model, accelerated, accelerator.prepare_scheduler(schedule), clip


def lives(accelerator, model, optimizer, schedule, clip):
    """What each of four steps left: whether it was skipped, and the rate of the next one."""
    seen = []
    for bad in (False, True, False, True):
        loss = model(torch.ones(3, 4)).sum()
        accelerator.scaler.scale(loss).backward()
        if bad:
            model.weight.grad[0, 0] = torch.nan
        if clip:
            accelerator.scaler.unscale_(optimizer.optimizer)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        seen.append((optimizer.step_was_skipped, schedule.get_last_lr()[0]))
    return seen, copy.deepcopy(model.state_dict())


@pytest.mark.parametrize("clip", [False, True])
@pytest.mark.parametrize("optimizers, scalers, words", [
    (altgrad.optim, altgrad.amp, {}), (altgrad.optim, altgrad.amp, dict(fused_amp=True)),
    (altgrad.optim, torch.amp, dict(fused_amp=True)), (altgrad.optim, torch.amp, {}),
    (torch.optim, altgrad.amp, {})])
def test_the_schedule_waits(optimizers, scalers, words, clip):
    seen, weights = lives(*prepared(optimizers, scalers, clip, **words))
    expected, others = lives(*prepared(torch.optim, torch.amp, clip))
    assert seen == expected and [skipped for skipped, _ in seen] == [False, True, False, True]
    for key, value in others.items():
        torch.testing.assert_close(weights[key], value)


def test_nobody_reads_the_verdict_elsewhere(monkeypatch):
    from altgrad.optim import _integrations
    param = torch.nn.Parameter(torch.ones(3))
    optimizer, scaler = altgrad.optim.AdamW([param]), altgrad.amp.GradScaler("cpu")
    param.grad = torch.ones(3)
    scaler.scale(torch.ones(()))
    monkeypatch.setattr(_integrations, "float", lambda flag: pytest.fail("read back"), raising=False)
    scaler.step(optimizer)
