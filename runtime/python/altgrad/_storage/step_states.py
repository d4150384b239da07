"""States of a rule that are one number for the step, such as Prodigy's distance."""

import torch

from .._binding.layout import check_extent
from .._binding.values import SCALAR_DTYPES


def states_of_step(bundle):
    """The scalars of a bundle that are such states, by their index in `bundle.singles`."""
    return {index: scalar for index, scalar in enumerate(bundle.singles) if scalar.role == "state"}


def bind_step_states(entries, built):
    """Lets the step read and write these states in `entries`, the first param_group, where a state_dict has them.

    A state that is not there begins as its first value. Tables find the same, and each writes it in memory of its own; the
    group holds that of the first table. `built`, the Tables, know from then on when another tensor lies there.
    """
    found = set()
    for table in built.tables:
        for index, scalar in states_of_step(table.bundle).items():
            key = scalar.key
            kept = _on(table.context.device, entries.get(key), SCALAR_DTYPES[scalar.type], key, scalar.default)
            if key in found:
                kept = kept.clone()  # several tables may have one device
            else:
                entries[key] = kept
            found.add(key)
            table.bind_values([(index, kept)])
    built.watch(entries, tuple(found))


def _on(device, held, dtype, key, first):
    with torch.inference_mode(False), torch.no_grad():
        if held is None or isinstance(held, (int, float)) and not isinstance(held, bool):
            return torch.full((), first if held is None else held, dtype=dtype, device=device)
        if not isinstance(held, torch.Tensor) or held.numel() != 1:
            raise ValueError(f"{key!r} of the first param_group is {held!r}; it has to be one number")
        check_extent(held)
        held = held.detach().to(device, dtype).contiguous().resolve_neg().reshape(())
        return held if held.data_ptr() else held.clone()
