"""Norms of past steps, by which max_grad_norm="percentile:P" clips."""

import torch

from .._binding.group_rules import OF_PARAMETERS
from .._binding.layout import check_extent, name_of
from .._bundle import HISTORY as NUMBERS

# In the first param_group, so that a state_dict has it.
HISTORY = "norm_history"


def check_adaptive(optimizer, clip, entries, fallback_part, group):
    """Raises where an adaptive bound would be one of a part of the gradients, or `entries`, the
    first param_group, has no history but something else."""
    held = entries.get(HISTORY)
    if clip == "percentile" and held is not None and (
            not isinstance(held, torch.Tensor) or held.shape != (NUMBERS,)):
        raise ValueError(f"{HISTORY} of the first param_group is no tensor of {NUMBERS} numbers; "
                         "remove it, and a new history begins")
    if clip in ("percentile", *OF_PARAMETERS) and (fallback_part or group is not None):
        whose = "there is a process_group"
        if fallback_part:
            param, reason = fallback_part.first
            whose = f"{name_of(optimizer, param)} {reason}, so torch's class steps it"
        raise RuntimeError(f"altgrad.optim.{type(optimizer).__name__}: max_grad_norm is {clip!r} and {whose}; "
                           "an adaptive bound needs all gradients in the kernels of one process: give a number")


def bind_history(entries, built):
    """Lets the step keep its norms in `entries`, the first param_group, with a new history if need be.

    Tables find the same norm, and each notes it in a history of its own; the group holds that of
    the first. `built`, the Tables, know from then on when another one lies there.
    """
    for place, table in enumerate(built.tables):
        for index, scalar in enumerate(table.bundle.singles):
            if scalar.role == "history":
                kept = _on(table.context.device, entries.get(HISTORY))
                if place == 0:
                    entries[HISTORY] = kept
                else:
                    kept = kept.clone()  # several tables may have one device
                table.bind_values([(index, kept)])
    built.watch(entries, (HISTORY,))


def _on(device, held):
    if held is None:
        with torch.inference_mode(False):
            made = torch.full((NUMBERS,), float("nan"), dtype=torch.float32, device=device)
            made[0] = 0.0
        return made
    check_extent(held)
    held = held.detach().to(device, torch.float32).contiguous().resolve_neg()
    return held if held.data_ptr() else held.clone()
