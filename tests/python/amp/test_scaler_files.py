"""Scalers refuse what would skip every step for ever, or never grow: in files, setters and constructors."""

import math

import pytest
import torch
import twins

import altgrad


@pytest.mark.parametrize("key, value, words", [
    ("scale", 0.0, "the file's scale is 0.0"), ("scale", -1.0, "the file's scale"),
    ("scale", math.nan, "the file's scale"), ("scale", math.inf, "the file's scale"),
    ("growth_interval", 1.5, "growth_interval is 1.5"), ("growth_interval", 0, "growth_interval is 0"),
    ("growth_interval", math.inf, "growth_interval is inf"), ("growth_factor", math.nan, "growth_factor is nan"),
    ("backoff_factor", 0.0, "backoff_factor is 0.0"), ("_growth_tracker", -1, "_growth_tracker is -1"),
    ("hysteresis_tracker", 0.5, "hysteresis_tracker is 0.5"), ("hysteresis_tracker", 2, "at most 1"),
    ("min_scale", math.inf, "min_scale is finite")])
def test_a_file_is_refused_and_the_scaler_stays(key, value, words):
    scaler = altgrad.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(torch.ones(()))
    before = scaler.state_dict()
    with pytest.raises(ValueError, match=words):
        scaler.load_state_dict({**before, key: value})
    assert scaler.state_dict() == before


@pytest.mark.parametrize("words", [dict(min_scale=math.inf), dict(growth_interval=1.5),
                                   dict(growth_interval=math.inf), dict(hysteresis=1.5)])
def test_a_constructor_refuses(words):
    with pytest.raises(ValueError):
        altgrad.amp.GradScaler("cpu", **words)


def test_setters_refuse():
    scaler = altgrad.amp.GradScaler("cpu")
    for call, value in ((scaler.set_growth_interval, 1.5), (scaler.set_growth_factor, math.nan),
                        (scaler.set_backoff_factor, -1.0)):
        with pytest.raises(ValueError):
            call(value)
    scaler.set_growth_interval(7), scaler.set_growth_factor(4.0), scaler.set_backoff_factor(0.25)
    assert (scaler.get_growth_interval(), scaler.get_growth_factor(), scaler.get_backoff_factor()) == (7, 4.0, 0.25)


def test_none_is_no_closure():
    params, others = twins.make([(5,)])
    for ps, library in ((params, altgrad), (others, torch)):
        torch.manual_seed(1)
        twins.give_grads(ps)
        optimizer, scaler = library.optim.AdamW(ps, lr=0.1), library.amp.GradScaler("cpu", init_scale=2.0)
        scaler.scale(torch.ones(()))
        scaler.step(optimizer, None)
        scaler.update()
    torch.testing.assert_close(params, others)
    optimizer, scaler = altgrad.optim.AdamW(params, lr=0.1), altgrad.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, lambda: 1.0)
    scaler.step(optimizer, closure=None)
