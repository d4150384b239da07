"""Undoes what torch's load_state_dict does to states and kernels could not read."""

import copy
from contextlib import contextmanager

import torch

from .._binding.group_rules import BOUND
from .._binding.layout import CODES, FORMATS, PARAM_DTYPES
from .._binding.offload import home_of
from .blocks import COLUMNS, SCALES, is_of_copy, scale_key
from .storage_line import LINE, check_file, storage_entry
from .file_entries import encode_entry, in_bytes
from .lacking import from_flat, may_lack
from .master import extra_streams
from .portable import in_blocks, in_numbers, travels
from .grid import code_dtypes, take_gradients


_MISSING = object()


@contextmanager
def preserve_dtypes(optimizer):
    """While torch's load_state_dict runs: hides the values that it would cast to the parameter's dtype.

    This happens between the hooks of the user. The bound of the norm stays where the file
    says nothing of it.
    """
    bound = optimizer.max_grad_norm

    def hide(_, given):
        given = check_file(optimizer, from_flat(optimizer, given))
        optimizer._counters.check(given["param_groups"])
        states = dict(given["state"])
        for index, param in zip(_flat(given["param_groups"]), _flat(optimizer.param_groups)):
            if index in states:
                states[index] = {key: _Hidden(value) if key != optimizer._count_key and _keeps_dtype(optimizer, param, key, value)
                                 else value for key, value in states[index].items()}
        # What the file's groups say of their storage has been compared: the groups keep their own.
        groups = [{**{key: value for key, value in group.items() if key != LINE}, **{key: mine[key] for key in (LINE,) if key in mine}}
                  for group, mine in zip(given["param_groups"], optimizer.param_groups)]
        return {**given, "state": states, "param_groups": [*groups, *given["param_groups"][len(groups):]]}

    def show(_):
        for param in _flat(optimizer.param_groups):
            for key, value in optimizer.state.get(param, {}).items():
                if isinstance(value, _Hidden):
                    tensor = isinstance(value.of, torch.Tensor)
                    optimizer.state[param][key] = value.of.to(home_of(optimizer, param)) if tensor else value.of
        _take_blocks(optimizer)
        for group in optimizer.param_groups:
            written = [held for _, held in extra_streams(optimizer._storage_of(group))]
            for held in filter(None, map(optimizer.state.get, group["params"])):
                for key in [key for key in held if _is_stale(optimizer, key, written)]:
                    del held[key]
        states = list(filter(None, map(optimizer.state.get, _flat(optimizer.param_groups))))
        for entries in (*optimizer.param_groups, *states):
            _make_lasting(entries)
        if not any(BOUND in group for group in optimizer.param_groups):
            optimizer.max_grad_norm = bound

    hooks = (optimizer.register_load_state_dict_pre_hook(hide),
             optimizer.register_load_state_dict_post_hook(show, prepend=True))
    try:
        with torch.inference_mode(False), torch.no_grad():  # what is taken from a file outlives a mode
            yield
    finally:
        for hook in hooks:
            hook.remove()


class _Hidden:
    """A value of a state, which torch hands on as it is, because this is neither a tensor nor a collection."""

    def __init__(self, of):
        self.of = of


def _make_lasting(entries):
    """Copies what was read in inference mode: outside of it no step could write it."""
    for key, value in entries.items():
        if isinstance(value, torch.Tensor) and value.is_inference():
            entries[key] = value.clone()


def _words_by_keys(optimizer, words):
    """{key: word} of the states that may have blocks in a Storage."""
    return {key: words.get(name, words.get("states", "")) for name, key in optimizer._keys.items()
            if name not in optimizer._of_units} if words else {}


def _take_blocks(optimizer):
    """Gives loaded states the blocks that they have here and had not where their file was made."""
    for group in optimizer.param_groups:
        words = _words_by_keys(optimizer, optimizer._storage_of(group))
        for param in group["params"] if words else ():
            if isinstance(held := optimizer.state.get(param), dict) and held:
                at, matrices = getattr(param, "altgrad_shard_location", None), optimizer._matrices_of(group, param)
                unit = optimizer._unit_of(optimizer._options_of(group), matrices) if matrices else 0
                optimizer.state[param] = in_blocks(held, words, param, at.cut if at and at.parted else unit)


def _flat(groups):
    return [param for group in groups for param in group["params"]]


def _is_stale(optimizer, key, written):
    """Whether a state of a file is a copy of the parameter that is not one of those that are `written`."""
    if not isinstance(key, str) or not is_of_copy(key) or key in optimizer._keys.values():
        return False
    return (COLUMNS if key.startswith(COLUMNS) else "copy") not in written


def _keeps_dtype(optimizer, param, key, value):
    """Whether a loaded state keeps its dtype: not where torch steps the parameter."""
    kernel_dtypes = *PARAM_DTYPES, *code_dtypes(optimizer._words)
    return param.dtype in kernel_dtypes and (not isinstance(value, torch.Tensor) or key in optimizer._tensor_states
                                             or value.dtype in (*FORMATS, *CODES, *SCALES.values(), param.dtype))


def encode_state_dict(optimizer, given):
    """The state_dict of a file, from that which torch's state_dict() gives."""
    groups = optimizer._encode_groups(optimizer._counters.encode(given["param_groups"]))
    return may_lack(optimizer, {**given, "state": _encode_states(optimizer, given["state"]), "param_groups": groups})


def _encode_states(optimizer, states):
    """The states of a file, by places, from those that torch's state_dict() has."""
    params, (far, whole) = dict(enumerate(_flat(optimizer.param_groups))), travels()
    words = dict(enumerate([words for group in optimizer.param_groups
                            for words in [_words_by_keys(optimizer, optimizer._storage_of(group))] for _ in group["params"]]))
    unbegun, entries = optimizer._not_begun(), {}
    for place, held in states.items():
        param = params.get(place) if isinstance(held, dict) else None
        held = _without(optimizer, held) if id(params.get(place)) in unbegun else held
        held = encode_entry(in_numbers(held, words[place], param) if far and param is not None else held, optimizer._keys.values())
        # altgrad.distributed gathers nothing.
        entries[place] = in_bytes(held) if whole and param is not None and not hasattr(param, "altgrad_shard_location") else held
    return entries


def _without(optimizer, held):
    """What a parameter's `state` holds beside the states of the rule."""
    states = {name for key in optimizer._keys.values() for name in (key, scale_key(key))}
    return {key: value for key, value in held.items() if key not in states}


def picklable(optimizer):
    """The state of a copy, with its float8 tensors as bytes: pickle (not torch.save) fails to load torch's own."""
    made, unbegun = copy.copy(optimizer.state), optimizer._not_begun()
    for param, held in optimizer.state.items():
        if id(param) in unbegun:
            made[param] = held = _without(optimizer, held)
        if type(held) is dict and any(map(_is_float8, held.values())):
            made[param] = {key: _Codes(value) if _is_float8(value) else value for key, value in held.items()}
    return made


def _is_float8(value):
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point and value.dtype.itemsize == 1


class _Codes:
    def __init__(self, tensor):
        self._tensor = tensor

    def __reduce__(self):
        return _with_dtype, (self._tensor.view(torch.uint8), self._tensor.dtype)


def _with_dtype(bytes, dtype):
    return bytes.view(dtype)


def fill_older(optimizer):
    """Gives groups and counts of an older file what they lack, and every group the optimizer's storage."""
    for group in optimizer.param_groups:
        for key, value in optimizer._older.items():
            group.setdefault(key, value)
        group[LINE] = storage_entry(optimizer._storage_of(group), optimizer._keys).get(LINE)
        if group[LINE] is None:
            del group[LINE]
        take_gradients(group["params"], optimizer._storage_of(group))
        for param in group["params"]:
            held = optimizer.state.get(param) or {}
            count = held.get(optimizer._count_key, _MISSING)
            if count is not _MISSING and not isinstance(count, torch.Tensor):
                held[optimizer._count_key] = torch.tensor(float(count), dtype=torch.float32,
                                                          device="cpu")
