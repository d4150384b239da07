"""The storage line that every param_group of a file has, because codes alone do not say their format."""

import torch

from .._binding.layout import FORMATS
from .._binding.where import is_host
from .blocks import BLOCKED_NUMEL, bent_by, block_of, is_of_copy, scale_key
from .counts import InvalidCount, check_count
from .filed import taken
from .line import Storage
from .master import REMAINDER

# Its key in every param_group of an optimizer with a storage.
LINE = "storage"
_BESIDE = {REMAINDER: "master", "master": "master"}


def line_of(words, keys):
    """The words of a storage by the keys of `state`; `keys` are those of a rule's states."""
    return " ".join(f"{keys.get(name, name)}={word}" for name, word in words.items())


def described(words, keys):
    """The entry of a param_group for the storage line; {} without a storage."""
    return {LINE: line_of(words, keys)} if words else {}


def words_of(group, where):
    """{key of a state: word} of a param_group of a file, {} where it says nothing; ValueError for no line."""
    line = group.get(LINE)
    if line is None:
        return {}
    if not isinstance(line, str):
        raise ValueError(f"{LINE} of {where} is {line!r}, not a line of words")
    try:
        return Storage(line)
    except ValueError as error:
        raise ValueError(f"{LINE} of {where} is {line!r}: {error}") from None


def layout_of(words, key):
    """The part of a state's word that its dtype does not tell; "" where the dtype tells everything."""
    word = words.get(_BESIDE[key], "f32") if key in _BESIDE else (
        words.get(key, "f32" if key == "copy" else words.get("states", "param")))
    stored, bent = word.partition(",")[0], bent_by(word)
    return "" if stored in ("param", *FORMATS.values()) else f"{stored},{bent}" if bent else stored


def check_group(group, own, where):
    """Raises ValueError where a new param_group says another storage than the optimizer's."""
    if group.get(LINE) != own.get(LINE):
        said = f"this optimizer's is {own[LINE]!r}" if own else "this optimizer has none"
        raise ValueError(f"{where} says {LINE}={group[LINE]!r}, and {said}: all param_groups have one "
                         "storage, which the constructor takes")


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
    given = {**given, "state": {place: taken(entry) for place, entry in given["state"].items()}}
    own = Storage(line_of(optimizer._words, optimizer._keys))
    for index, group in enumerate(given["param_groups"]):
        said = words_of(group, f"param_group {index} of the file")
        for place in group["params"]:
            entry = given["state"].get(place, {})
            _check_entry(f"{who}: the state of parameter {place} of the file", entry, optimizer._count_key)
            for key, value in entry.items():
                if isinstance(key, str) and isinstance(value, torch.Tensor) and (
                        _is_other(key, value, said, own) if said else _is_plain(key, entry, own, optimizer)):
                    file = f"stored as {group[LINE]!r}" if said else f"{value.dtype} without scales ({key!r})"
                    mine = f"stored as {line_of(optimizer._words, optimizer._keys)!r}" if own else "without a storage"
                    raise ValueError(
                        f"{who}: the file's states are {file}, and this optimizer's {mine}: make it with the "
                        "storage that the states have, or load altgrad.transcode(state_dict, to=optimizer)")
    return given


def _check_entry(what, entry, counted):
    if not isinstance(entry, dict):
        raise TypeError(f"{what} is {entry!r:.60}, not a dict")
    count = entry.get(counted, 0.0)
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
    return (key in optimizer._keys.values() and block_of(layout_of(own, key)) > 1
            and entry[key].numel() >= BLOCKED_NUMEL and scale_key(key) not in entry)


def _is_other(key, value, said, own):
    theirs, mine = layout_of(said, key), layout_of(own, key)
    if key == "master" and key in said and key not in own:
        return True  # the parameters go on from numbers that are rounded
    if key.endswith("_scale") or is_of_copy(key) and not (key in said and key in own) or theirs == mine:
        return False
    if key in _BESIDE:
        return True
    # A small tensor is float32 in every storage with blocks.
    blocked = max(block_of(theirs), block_of(mine)) > 1 and value.numel() < BLOCKED_NUMEL
    return not (blocked and value.dtype == torch.float32)
