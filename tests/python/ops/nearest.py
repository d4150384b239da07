"""What altgrad.quantize is defined to give, by a search for the nearest number."""

import numpy as np
import torch

FORMATS = {"ocp.e4m3fn": torch.float8_e4m3fn, "ocp.e5m2": torch.float8_e5m2}


def numbers(fmt):
    """All finite numbers of a format with their codes, largest last."""
    codes = torch.arange(128, dtype=torch.uint8)
    values = codes.view(FORMATS[fmt]).double()
    kept = values.isfinite()
    return values[kept].numpy(), codes[kept].numpy()


def nearest(x, fmt, scale):
    """The definition by search: the nearest number, of two the one with the even code."""
    values, codes = numbers(fmt)
    scaled = (x.float() / scale).double().numpy()
    size = np.minimum(np.abs(scaled), values[-1])
    above = np.clip(np.searchsorted(values, size), 1, len(values) - 1)
    low, high = values[above - 1], values[above]
    up = (high - size < size - low) | ((high - size == size - low) & (codes[above] % 2 == 0))
    out = np.copysign(np.where(up, high, low), scaled)
    if fmt == "ocp.e5m2":
        out = np.where(np.isinf(scaled), scaled, out)
    out = np.where(np.isnan(scaled), np.nan, out)
    return (torch.tensor(out, dtype=torch.float32) * scale).to(x.dtype)
