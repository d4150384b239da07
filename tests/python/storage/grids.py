"""GridOptim once more, as definitions 7.1 and 7.2 say it: by tables and searches, one tensor at a time."""

import sys
from pathlib import Path

import numpy as np

sys.path += [str(Path(__file__).parents[2] / folder) for folder in ("differential", "reference")]
import formats  # noqa: E402
import rounding  # noqa: E402
from softfma import fma  # noqa: E402

f32 = np.float32


def grid_of(name):
    """The finite numbers of a format in their order, both zeros as one."""
    form = formats.named(name)
    numbers = formats.decode(form, np.arange(1 << form.bits).astype(form.code))
    return np.unique(numbers[np.isfinite(numbers)] + f32(0))


def pull(value, velocity, grad, scale, momentum, weight_decay, rung_clip):
    """(velocity, r) of one step in float32."""
    grad = fma(f32(weight_decay), value, grad)
    velocity = f32(momentum) * velocity + grad
    return velocity, np.clip(velocity * f32(scale), f32(-rung_clip), f32(rung_clip))


def reference_step(grid, master, velocity, grad, draws, **hypers):
    """The source's step with U = draws / 65536: (master, velocity, flips, updates)."""
    velocity, r = pull(master, velocity, grad, **hypers)
    k = np.floor(r + draws.astype(f32) / f32(65536)).astype(np.int64)
    index = np.searchsorted(grid, master, side="left")
    new = grid[np.clip(index - k, 0, len(grid) - 1)]
    return new, velocity, int((new != master).sum()), int((np.abs(grad) > f32(1e-10)).sum())


def exact_step(grid, master, velocity, grad, draws, **hypers):
    """The default: whole rungs of |r|, and one more where its fraction's 65536ths and a draw reach 65536."""
    velocity, r = pull(master, velocity, grad, **hypers)
    size = np.abs(r.astype(np.float64))
    more = np.floor((size - np.floor(size)) * 65536) + draws >= 65536
    k = (np.sign(r) * (np.floor(size) + more)).astype(np.int64)
    new = grid[np.clip(nearest(grid, master) - k, 0, len(grid) - 1)]
    return new, velocity, int((new != master).sum()), int((np.abs(grad) > f32(1e-10)).sum())


def nearest(grid, numbers):
    """The index of the nearest number; a tie goes to the even rung."""
    x, steps = numbers.astype(np.float64), grid.astype(np.float64)
    low = np.clip(np.searchsorted(steps, x, side="right") - 1, 0, len(steps) - 2)
    below, above = x - steps[low], steps[low + 1] - x
    odd = (low - len(grid) // 2) % 2 != 0
    return low + ((above < below) | ((above == below) & odd))
