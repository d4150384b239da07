"""States of a file: codes lie one level deeper there, because torch's classes would take them for numbers.

torch's load_state_dict turns every tensor of a state into the dtype of its parameter, which makes numbers of
codes, and its classes then go on from them. With a dict in the state's place their first step raises. The key stays
torch's, since torch.distributed.checkpoint finds the states of a flat file by the keys that the optimizer has in memory.
Scales have the rows of their codes there, where rows have whole blocks: so DTensors share them out.
"""

from collections.abc import Mapping

import torch

from .._binding.layout import is_dtensor
from .blocks import is_of_copy, scale_key

# The one key of that dict.
CODES = "codes"


def filed(held, keys):
    """The entry of a file for the states of a parameter. `keys` are those of the rule's states."""
    coded = [key for key in keys if _is_coded(key, held)] if isinstance(held, Mapping) else []
    scales = {name: _by_rows(held[key], held[name]) for key in coded if (name := scale_key(key)) in held}
    return {**held, **{key: {CODES: held[key]} for key in coded}, **scales} if coded else held


def taken(entry):
    """The states of a parameter from an entry of a file; one of an older file has its codes as they are."""
    if not isinstance(entry, dict):
        return entry
    scales = [name for key in entry if isinstance(key, str) and not is_of_copy(key)
              and _has_rows(entry.get(name := scale_key(key)))]
    if not scales and not any(map(_holds_codes, entry.values())):
        return entry
    found = {key: value[CODES] if _holds_codes(value) else value for key, value in entry.items()}
    return {**found, **{name: found[name].reshape(-1) for name in scales}}


def take_all(state):
    """Brings every entry of a mapping into the form of memory, in place: ZeRO puts those of files there."""
    for param, held in state.items():
        if (own := taken(held)) is not held:
            state[param] = own


def _by_rows(codes, scales):
    if codes.dim() < 2 or scales.dim() != 1 or not codes.is_contiguous() or not scales.numel():
        return scales
    block, rest = divmod(codes.numel(), scales.numel())
    return scales.view(codes.shape[0], -1) if rest == 0 and (codes.numel() // codes.shape[0]) % block == 0 else scales


def _has_rows(scales):
    return isinstance(scales, torch.Tensor) and scales.dim() > 1 and not is_dtensor(scales)


def _is_coded(key, held):
    """Whether a state is codes that are no numbers by their dtype alone."""
    state = held.get(key)
    if not isinstance(state, torch.Tensor) or state.is_complex():
        return False
    return not state.is_floating_point() or scale_key(key) in held


def _holds_codes(value):
    return type(value) is dict and value.keys() == {CODES} and isinstance(value[CODES], torch.Tensor)
