"""Code books from their recipe in torch, and torchao's way to a code in NumPy: no table of thresholds, no lines."""

import functools

import numpy as np
import torch


@functools.cache
def table(name):
    """The numbers of a book in ascending order: bitsandbytes' `create_dynamic_map`, written anew."""
    if name == "torchao4u":
        return torch.linspace(0, 1, 17)[1:].numpy()
    signed, decades = not name.endswith("u"), 7 if name.startswith("bnb8") else 3
    positive = []
    for decade in range(decades):
        ramp = torch.linspace(0.1, 1, 2 ** (decade + (not signed)) + 1)
        positive += (10 ** (decade + 1 - decades) * ((ramp[:-1] + ramp[1:]) / 2.0)).tolist()
    negative = [-number for number in positive] if signed else []
    return np.array(sorted([*negative, 0.0, *positive, 1.0]), np.float32)


def zero_of(name):
    """The code of the number next to 0, and of NaN."""
    return int(np.abs(table(name)).argmin())


def encode(name, numbers):
    """`quantize_8bit_with_qmap` of torchao: the number below, or from half of the way on the one above."""
    known = table(name)
    numbers = np.asarray(numbers, np.float32)
    low = np.searchsorted(known, numbers, side="right").clip(1, None) - 1
    low = np.where(np.isnan(numbers), 0, low)
    high = (low + 1).clip(max=len(known) - 1)
    with np.errstate(all="ignore"):
        up = numbers - known[low] >= (known[high] - known[low]) * np.float32(0.5)
    return np.where(np.isnan(numbers), zero_of(name), np.where(up, high, low)).astype(np.uint8)
