"""The storage line that every param_group of a file has, because codes alone do not say their format."""

from functools import lru_cache

import torch

from .._binding.device_context import is_host
from .._binding.matrix_blocks import plain_key
from .._core import core
from .blocks import has_blocks, scale_key
from .counts import InvalidCount, check_count
from .file_entries import decode_entry
from .line import Storage
from .master import extra_streams
from .streams import in_rule_names
from .word import word_of

# Its key in every param_group of an optimizer with a storage.
LINE = "storage"


def line_of(words, keys):
    """The words of a storage by the keys of `state`; `keys` are those of a rule's states."""
    return " ".join(f"{keys.get(name, name)}={word}" for name, word in words.items())


def storage_entry(words, keys):
    """The entry of a param_group for the storage line; {} without a storage."""
    return {LINE: line_of(words, keys)} if words else {}


def words_of(group, where, keys):
    """{key of a state: word} of a param_group, {} where it has no line; ValueError for what is none.

    A line may also have the rule's names of states, of which `keys` are the keys.
    """
    line = group.get(LINE)
    if line is None:
        return {}
    if not isinstance(line, str):
        raise ValueError(f"{LINE} of {where} is {line!r}, not a storage line")
    try:
        return Storage({keys.get(name, name): word for name, word in Storage(line).items()})
    except ValueError as error:
        raise ValueError(f"{LINE} of {where} is {line!r}: {error}") from None


def layout_of(words, key):
    """The part of a state's word that its dtype does not tell; "" where the dtype tells everything."""
    return core().altgrad_core_state_format(line_of(words, {}).encode(), key.encode()).decode()


@lru_cache(1 << 8)
def merged(words, line, keys):
    """The words of an optimizer with those of a param_group's line; `keys` are pairs of a state's name and its key."""
    return words if line == line_of(words, dict(keys)) else words | in_rule_names(line, dict(keys))


def check_state_dict(who, given):
    """Raises ValueError unless a value has the form of an optimizer's state_dict()."""
    if not (isinstance(given, dict) and isinstance(given.get("state"), dict)
            and isinstance(given.get("param_groups"), (list, tuple))
            and all(isinstance(group, dict) and isinstance(group.get("params"), (list, tuple))
                    for group in given["param_groups"])):
        raise ValueError(f"{who} takes what optimizer.state_dict() gives: a dict with 'state', a "
                         "dict, and 'param_groups', dicts with 'params'")


def check_file(optimizer, given):
    """The state_dict with its states as they are in memory. Raises TypeError or ValueError where it is none, or has
    states of another storage, before anything is loaded."""
    who = f"altgrad.optim.{type(optimizer).__name__}"
    check_state_dict(f"{who}: load_state_dict", given)
    if "ranks" in given:
        raise ValueError(f"{who}: the file has the states of one rank's part, (rank, ranks) {tuple(given['ranks'])}: give the "
                         "files of all ranks to altgrad.distributed.merge_state_dicts")
    given = {**given, "state": {place: decode_entry(entry) for place, entry in given["state"].items()}}
    storages = optimizer._storages()
    for index, group in enumerate(given["param_groups"]):
        storage = storages[min(index, len(storages) - 1)]  # torch refuses other groups later
        own = Storage(line_of(storage, optimizer._keys))
        words = words_of(group, f"param_group {index} of the file", optimizer._keys)
        for place in group["params"]:
            entry = given["state"].get(place, {})
            _check_entry(f"{who}: the state of parameter {place} of the file", entry, optimizer, storage)
            for key, value in entry.items():
                if isinstance(key, str) and isinstance(value, torch.Tensor) and (
                        _is_other(key, value, words, own) if words else _is_plain(key, entry, own, optimizer)):
                    file = f"stored as {group[LINE]!r}" if words else f"{value.dtype} without scales ({key!r})"
                    mine = f"stored as {str(own)!r}" if own else "without a storage"
                    raise ValueError(
                        f"{who}: the file's states are {file}, and this optimizer's {mine}: make it with the "
                        "storage that the states have, or load altgrad.transcode(state_dict, to=optimizer)")
    return given


def _check_entry(what, entry, optimizer, storage):
    if not isinstance(entry, dict):
        raise TypeError(f"{what} is {entry!r:.60}, not a dict")
    kept = [*optimizer._keys.values(), *[key for _, key in extra_streams(storage)]]
    for key in [name for key in kept for name in (key, scale_key(key))]:
        if not isinstance(entry.get(key), torch.Tensor | None):
            raise TypeError(f"{what} has {key!r} as {type(entry[key]).__name__}, {entry[key]!r:.60}, not as a tensor")
    count = entry.get(optimizer._count_key, 0.0)
    try:
        if not isinstance(count, torch.Tensor):
            check_count(float(count))
        elif count.numel() == 1 and is_host(count.device) and not count.is_complex():
            check_count(count.item())
    except InvalidCount as error:
        raise ValueError(f"{what}: {error}") from None
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"{what} has the step count {count!r:.60}, not a number") from None


def _is_plain(key, entry, own, optimizer):
    """Whether a file without a storage line has plain numbers where the optimizer has codes with scales."""
    return ((name := plain_key(key)) in optimizer._keys.values() and has_blocks(own.get(name, own.get("states", "")), entry[key].numel())
            and scale_key(key) not in entry)


def _is_other(key, value, words, own):
    plain = value.numel() if value.dtype == torch.float32 else -1
    return core().altgrad_core_formats_differ(line_of(words, {}).encode(), line_of(own, {}).encode(), plain_key(key).encode(), plain)
