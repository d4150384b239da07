"""States of a file: codes lie one level deeper there, because torch's classes would take them for numbers.

torch's load_state_dict turns every tensor of a state into the dtype of its parameter, which makes numbers of
codes, and its classes then go on from them. With a dict in the state's place their first step raises. The key stays
torch's, since torch.distributed.checkpoint finds the states of a flat file by the keys that the optimizer has in
memory. Scales have the rows of their codes there, where rows have whole blocks: so DTensors share them out.
"""

from collections.abc import Mapping

import torch

from .._binding.layout import is_dtensor, local_of
from .._binding.matrix_blocks import plain_key
from .._binding.shards import dtensor_of
from .blocks import is_of_copy, scale_key

# The one key of that dict.
CODES = "codes"
# What process groups do not send; where a file is gathered from ranks, the one key of a dict with the bytes.
_UNSENT = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.int16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu)}


def encode_entry(held, keys):
    """The entry of a file for the states of a parameter. `keys` are those of the rule's states."""
    coded = [key for key in held if plain_key(key) in keys and _is_coded(key, held)] if isinstance(held, Mapping) else []
    scales = {name: _by_rows(held[key], held[name]) for key in coded if (name := scale_key(key)) in held}
    return {**held, **{key: {CODES: held[key]} for key in coded}, **scales} if coded else held


def decode_entry(entry):
    """The states of a parameter from an entry of a file; one of an older file has its codes as they are."""
    if not isinstance(entry, dict):
        return entry
    if any([type(value) is dict for value in entry.values()]):
        entry = {key: _from_bytes(value) for key, value in entry.items()}
        # torch.distributed.checkpoint makes {} of scales in memory whose codes travelled as numbers in a flat file.
        for key in [key for key, value in entry.items() if isinstance(value, torch.Tensor) and value.dtype == torch.float32]:
            if isinstance(key, str) and type(entry.get(scale_key(key))) is dict and not entry[scale_key(key)]:
                del entry[scale_key(key)]
    scales = [name for key in entry if isinstance(key, str) and not is_of_copy(key)
              and _has_rows(entry.get(name := scale_key(key)))]
    if not scales and not any(map(_holds_codes, entry.values())):
        return entry
    found = {key: value[CODES] if _holds_codes(value) else value for key, value in entry.items()}
    return {**found, **{name: found[name].reshape(-1) for name in scales}}


def decode_all(state):
    """Brings every entry of a mapping into the form of memory, in place: ZeRO puts those of files there."""
    for param, held in state.items():
        if (own := decode_entry(held)) is not held:
            state[param] = own


def in_bytes(entry):
    """An entry of a file whose tensors process groups can send: the others as `{dtype: bytes}`."""
    return {key: _to_bytes(value[CODES] if _holds_codes(value) else value, value) for key, value in entry.items()}


def _to_bytes(value, otherwise):
    name = str(getattr(value, "dtype", "")).removeprefix("torch.")
    if name not in _UNSENT or type(value) is not torch.Tensor and not is_dtensor(value):
        return otherwise
    return {name: _viewed(value, lambda plain: (plain.unsqueeze(-1) if plain.itemsize > 1 else plain).view(torch.uint8))}


def _from_bytes(value):
    if type(value) is not dict or len(value) != 1 or not value.keys() <= _UNSENT.keys():
        return value
    (name, bytes), = value.items()
    back = lambda plain: plain.contiguous().view(_UNSENT[name])
    return _viewed(bytes, lambda plain: back(plain).squeeze(-1) if _UNSENT[name].itemsize > 1 else back(plain))


def _viewed(value, view):
    """What `view` makes of a tensor; of a DTensor, of its part and of its shape alike."""
    if not is_dtensor(value):
        return view(value)
    whole = torch.empty(value.shape, dtype=value.dtype, device="meta")
    return dtensor_of(view(local_of(value)), value, view(whole).shape)


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
