"""Counts of steps go on in a resumed run."""

import copy
import io
import pickle

import pytest
import torch
import twins

import altgrad


def run(optimizer, params, scaler, bad):
    for is_bad in bad:
        twins.give_grads(params)
        scaler.scale(torch.zeros(()))
        if is_bad:
            params[0].grad[0] = torch.inf
        scaler.step(optimizer)
        scaler.update()


def by_file(optimizer, other):
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    return other


WAYS = {"file": by_file, "state_dict": lambda o, other: other.load_state_dict(o.state_dict()) or other,
        "pickle": lambda o, _: pickle.loads(pickle.dumps(o)), "copy": lambda o, _: copy.deepcopy(o)}


@pytest.mark.parametrize("ours", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_skipped_steps_go_on(way, ours):
    scalers = altgrad.amp.GradScaler if ours else torch.amp.GradScaler
    make = lambda ps: altgrad.optim.AdamW(ps, lr=0.1, fused_amp=True, statistics=True, max_grad_norm=1.0)
    params, others = twins.make([(5,), (3,)])
    optimizer, scaler = make(params), scalers("cpu")
    run(optimizer, params, scaler, [0, 1, 1, 0])
    counts = {key: getattr(optimizer.statistics(), key).item() for key in ("steps", "skipped", "clipped_steps")}
    assert optimizer.skipped_steps == 2 == counts["skipped"] and counts["steps"] == 4
    other = WAYS[way](optimizer, make(others))
    assert other.skipped_steps == 2 and not any("skipped_steps" in group for group in other.param_groups)
    run(other, [p for group in other.param_groups for p in group["params"]], scalers("cpu"), [1, 0])
    assert other.skipped_steps == 3 and other.statistics().steps == 6
    # The first optimizer's are its own.
    assert optimizer.skipped_steps == 2


def test_a_file_of_a_run_without_a_scaler_says_nothing():
    params, others = twins.make([(5,)])
    optimizer, other = altgrad.optim.AdamW(params), altgrad.optim.AdamW(others, fused_amp=True)
    twins.give_grads(params)
    optimizer.step()
    saved = optimizer.state_dict()
    assert "skipped_steps" not in saved["param_groups"][0]
    run(other, others, altgrad.amp.GradScaler("cpu"), [1])
    other.load_state_dict(saved)
    assert other.skipped_steps == 1
    saved["param_groups"][0]["skipped_steps"] = 3
    with pytest.raises(ValueError, match="the file's count of skipped steps is 3; it is an int64 tensor"):
        other.load_state_dict(saved)
