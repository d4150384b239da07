"""Step counts: what kernels count in, and which numbers are counts."""

import torch

from .._binding.layout import check_extent, check_memory
from .._binding.device_context import is_host

# From here on a float32 count cannot become an int64, in which rules have it.
_MOST_STEPS = 2.0**63


class InvalidCount(ValueError):
    """A number that counts no steps."""


def is_count(value, device):
    """Whether the kernels can count in `value` itself."""
    return (isinstance(value, torch.Tensor) and value.dtype == torch.float32
            and value.device == device and value.numel() == 1)


def count_of(value, device):
    """A step count as its own 0-dim float32 tensor on the device of its parameter.

    Raises TypeError for no number, ValueError for one that counts nothing.
    """
    tensor = isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_meta
    if tensor and not value.is_complex():
        check_memory("a step count", value)
        if is_host(value.device) and not value._is_zerotensor():
            check_extent(value)
            check_count(value.item())
        return value if is_count(value, device) else value.detach().to(device, torch.float32).view(())
    try:
        number = 0.0 if value is None else float(value)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise TypeError(f"a step count is {value!r}, not a number") from None
    check_count(number)
    return torch.full((), number, dtype=torch.float32, device=device)


def check_count(number):
    """Raises InvalidCount where a number is no count of steps: beyond these a rule's powers are NaN."""
    if not 0.0 <= number < _MOST_STEPS:
        raise InvalidCount(f"a step count is {number!r}; it is a number from 0 to 2^63")
