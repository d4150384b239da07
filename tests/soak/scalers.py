"""A loss scaler with an optimizer of ours beside torch's with torch's."""

import math

import torch

import altgrad

NONSENSE = {"scale": [0.0, -1.0, math.nan, math.inf, "x", None], "growth_interval": [0, 1.5, math.inf, None],
            "growth_factor": [0.5, math.nan], "backoff_factor": [0.0, -1.0, 2.0], "_growth_tracker": [-1, math.nan],
            "min_scale": [math.inf, -1.0, math.nan], "hysteresis": [0, 1.5], "hysteresis_tracker": ["x", 5, 0.5, math.nan]}


def live(life):
    dice = life.dice
    values = [torch.randn(dice.choice([3, 600])) for _ in range(dice.randint(1, 3))]
    lists = [[torch.nn.Parameter(value.clone()) for value in values] for _ in range(2)]
    words = dict(init_scale=2.0**dice.randint(-2, 20), growth_interval=dice.randint(1, 4), growth_factor=4.0)
    scalers = altgrad.amp.GradScaler("cpu", **words), torch.amp.GradScaler("cpu", **words)
    optimizers = (altgrad.optim.AdamW(lists[0], lr=0.01, fused_amp=dice.random() < 0.5),
                  torch.optim.AdamW(lists[1], lr=0.01, foreach=False))
    if dice.random() < 0.3:  # ours with the other library's
        scalers = scalers[::-1]
    for step in range(dice.randint(2, 20)):
        bad, unscales = dice.random() < 0.3, dice.random() < 0.3
        grads = [torch.randn_like(value) for value in values]
        if bad:
            grads[0][0] = dice.choice([math.inf, math.nan])
        other = dice.choice([None, None, None, 8.0])
        for scaler, optimizer, params in zip(scalers, optimizers, lists):
            scale = scaler.scale(torch.ones(()))
            for param, grad in zip(params, grads):
                param.grad = grad * scale
            if unscales:
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update(other)
        for p, q in zip(*lists):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5)
        assert scalers[0].get_scale() == scalers[1].get_scale()
        if dice.random() < 0.2:
            first, second = (scaler.state_dict() for scaler in scalers)
            scalers[0].load_state_dict(second), scalers[1].load_state_dict(first)
            life.said["files"] += 1
        life.said["steps"] += 1
    assert optimizers[0].skipped_steps is not None
    scaler = altgrad.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    before, key = scaler.state_dict(), dice.choice(list(NONSENSE))
    value = dice.choice(NONSENSE[key])
    refused = life.refused(lambda: scaler.load_state_dict({**before, key: value}), [], f"{key}={value!r}")
    assert refused and scaler.state_dict() == before, f"a file with {key}={value!r} was taken"
