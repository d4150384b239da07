"""What an optimizer refuses of its groups, whatever tensors are in them."""

from functools import cache

import torch

from .._binding.device_context import is_known, stays_on_device
from ._joint_step import check_shards


def check_entries(optimizer, group):
    """Raises RuntimeError for a group that asks for a graph through the step."""
    # torch builds a graph through the step.
    if group.get("differentiable") and not optimizer._falls_back:
        raise RuntimeError(f"altgrad.optim.{type(optimizer).__name__} does not support "
                           "differentiable=True: autograd cannot see into compiled kernels")


@cache
def _parts_of(kind):
    """How many numbers the tuples of a class have: {"betas": 2}."""
    parts = {}
    for key, part in [place for place in kind._hypers.values() if isinstance(place, tuple)]:
        parts[key] = max(parts.get(key, 0), part + 1)
    return parts


def check_tuples(kind, groups):
    """Raises ValueError for a tuple of hyper-parameters that has more or fewer parts than the rule.

    Reads no tensor: one of a GPU would be waited for.
    """
    for group in groups:
        for key, count in _parts_of(kind).items():
            value = group.get(key)
            if isinstance(value, (tuple, list)) and len(value) != count:
                raise ValueError(f"{key} is {value}; it has to be {count} numbers")


def float_of(key, part, value, absent, waits):
    """A hyper-parameter that is no float: the value of a group's key, or a part of it.

    `waits`: a kernel of the host reads it, wherever it lies.
    """
    if part is None and isinstance(value, torch.Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {key} must be 1-element")
    try:
        of = value if part is None else value[part]
        if of is None and key in absent:
            return 0.0
        if isinstance(of, str) or (isinstance(of, torch.Tensor) and of.is_complex()):
            raise TypeError
        if stays_on_device(of) and of.numel() == 1 and not waits and is_known(of.device):
            return 0.0  # the step reads the tensor itself
        return float(of)
    except (TypeError, ValueError, IndexError, KeyError, OverflowError, RuntimeError):
        where = "" if part is None else f" at place {part}"
        raise TypeError(f"{key} is {value!r}, not a number{where}") from None


def check_numbers(optimizer, group):
    """Raises what float_of raises for a number of a group whose parameters torch steps: it would find it halfway."""
    for key, default in optimizer.defaults.items():
        if isinstance(default, (int, float, tuple, torch.Tensor)) and not isinstance(default, bool):
            for part in range(len(default)) if isinstance(default, tuple) else [None]:
                float_of(key, part, group[key], optimizer._absent, False)


def check_hypers(defaults):
    """Raises TypeError or ValueError for hyper-parameters of a rule that are no numbers or make no sense."""
    for key, value in [(key, part) for key, value in defaults.items()
                       for part in (value if isinstance(value, tuple) else (value,))]:
        try:
            # Other values lie on a device, where reading them would wait, or are tensors, whose shape is checked later.
            if isinstance(value, str) or isinstance(value, complex):
                raise TypeError
            number = float(value) if not hasattr(value, "device") else 0.0
        except (TypeError, ValueError, OverflowError):
            raise TypeError(f"{key} is {value!r}, not a number") from None
        if number != number or (key == "lr" and number < 0.0):
            raise ValueError(f"Invalid {'learning rate' if key == 'lr' else key + ' value'}: {value}")


def check_ranks(optimizer, rules=()):
    """Raises RuntimeError where `max_grad_norm`, or a sum over the step of one of the rules, would be of this rank's shards
    alone."""
    if optimizer.process_group is not None:
        return
    if optimizer.max_grad_norm is not None:
        why = "max_grad_norm would clip every rank by its own norm"
    elif any([rule.totals() for rule, _ in rules]):
        why = "its rule would add up what this rank has alone"
    else:
        return
    check_shards(optimizer, why)
    if optimizer._left_behind:
        raise RuntimeError(f"altgrad.optim.{type(optimizer).__name__}: a copy does not keep the process_group, and {why}; "
                           "set optimizer.process_group, to None if there is one process")
