"""dynamic_loss_scale_update: numbers and tensors walk the same way."""

import math

import pytest
import torch

import altgrad

FOUND = [0, 0, 0, 1, 0, 1, 1, 0, 0, 0, 0, 0]


def walk(kind, scale=1024.0, tracker=0, interval=3):
    """(scale, tracker) after each step; in `kind` of scalars."""
    scale, tracker = kind(scale), kind(tracker)
    for found in FOUND:
        scale, tracker = altgrad.dynamic_loss_scale_update(kind(found), scale, tracker, interval, 0.25)
        yield float(scale), int(tracker)


def test_numbers_and_tensors_agree():
    assert list(walk(lambda x: x)) == list(walk(torch.tensor)) == [
        (1024, 1), (1024, 2), (2048, 0), (512, 0), (512, 1), (128, 0), (32, 0), (32, 1), (32, 2),
        (64, 0), (64, 1), (64, 2)]


@pytest.mark.parametrize("kind", [lambda x: x, torch.tensor])
def test_an_interval_that_was_lowered_still_grows(kind):
    scale, tracker = altgrad.dynamic_loss_scale_update(kind(0.0), kind(8.0), kind(50), 3, 0.5)
    assert (float(scale), int(tracker)) == (16.0, 0)


def test_dtypes_stay_and_nothing_becomes_infinite():
    scale, tracker = torch.tensor(2.0**127), torch.tensor(0, dtype=torch.int32)
    new, count = altgrad.dynamic_loss_scale_update(torch.tensor(0.0), scale, tracker, 1, 0.5)
    assert new == 2.0**127 and (new.dtype, count.dtype) == (torch.float32, torch.int32)
    assert altgrad.dynamic_loss_scale_update(False, 2.0**1023, 0, 1, 0.5) == (2.0**1023, 0)
    assert altgrad.dynamic_loss_scale_update(math.nan, 8.0, 1, 9, 0.5) == (4.0, 0)


@pytest.mark.parametrize("interval, backoff", [(0, 0.5), (3, 0.0), (3, 1.0), (3, math.nan)])
def test_what_is_no_schedule(interval, backoff):
    with pytest.raises(ValueError, match="growth_interval is 0|backoff_factor is"):
        altgrad.dynamic_loss_scale_update(False, 8.0, 0, interval, backoff)


SCALES = [2.0**127, 1.5 * 2.0**127, 65536.0, 3.3e38, 1e-45, 0.0, math.inf, math.nan, 0.1]


@pytest.mark.parametrize("backoff", [0.5, 0.3, 0.999])
@pytest.mark.parametrize("tracker, interval", [(0, 1), (0, 2), (1, 2), (50, 3)])
def test_every_bit_is_the_compiled_operations(tracker, interval, backoff):
    """`torch` of update_loss_scale for a tracker short of its interval; beyond it grows, too."""
    from altgrad.amp._scaler_state import ScalerState
    cells = ScalerState(torch.device("cpu"), "torch")
    cells.take_settings(dict(growth_factor=2.0, backoff_factor=backoff, growth_interval=interval,
                             hysteresis=1, min_scale=0.0, max_scale=math.inf))
    for scale in SCALES:
        for found in (0.0, -0.0, 1.0, math.nan, math.inf):
            cells.set(grad_scale=scale, growth_tracker=min(tracker, interval - 1),
                      hysteresis_tracker=1, found=found)
            cells.compute_next([])
            new, count = altgrad.dynamic_loss_scale_update(
                torch.tensor(found), torch.tensor(scale), torch.tensor(tracker), interval, backoff)
            theirs = cells.at["next_scale"]
            assert new.view(torch.int32) == theirs.view(torch.int32) or new.isnan() and theirs.isnan()
            assert count == cells.at["next_growth_tracker"]
