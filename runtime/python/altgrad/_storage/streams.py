"""Which streams a word of storage may speak of: a name that is none is refused before anything is stored."""

import ctypes
import difflib
from typing import Any

from .._core import core
from .._library import Error
from .line import NO_STATES, Storage, StorageLike

# What every rule has, in the order in which the compiler lists it.
_COMMON = "param", "master", "rungs", "grad", "copy", "states", "step"
assert NO_STATES | {"states"} == set(_COMMON)


def in_rule_names(line: StorageLike, keys) -> Storage:
    """The line with the rule's names of states, where it has keys of `state` such as exp_avg.

    `keys` maps names to keys; a word that is a name already is none. Raises ValueError for a state that has two words.
    """
    renamed, pairs = ctypes.c_char_p(), " ".join(map("=".join, dict(keys).items()))
    try:
        core().altgrad_core_line_by_names(str(Storage(line)).encode(), pairs.encode(), ctypes.byref(renamed))
    except Error as error:
        raise ValueError(str(error)) from None
    return Storage(renamed.value.decode())


def check_streams(line: StorageLike, owner: str, states, only_with=(), keys=(), others=(), numbers=()) -> None:
    """Raises ValueError, with a mark at the word, where a storage line names a stream that its optimizer has not.

    `states` are those of the rule, `only_with` maps those that an option begins to it, `keys` maps states
    to keys of `state`, which in_rule_names replaces, `others` maps what the rule calls its parameter, gradient and
    count to their streams, and `numbers` maps states that have no format of their own to what has a number: a row, say.
    """
    known = [*_COMMON, *states]
    for name, word in Storage(line).items():
        if name in known or name in dict(keys).values():
            continue
        text = " ".join(line.split()) if isinstance(line, str) else str(Storage(line))
        meant = dict(others)
        near = [meant[name]] if name in meant else difflib.get_close_matches(name, known, 1)
        needs = "".join(f"; {state} is stored with {option}" for state, option in dict(only_with).items())
        spelled = f"{name}={word}" if f"{name}={word}" in text else f"{name}="
        mark = f"{text}\n{' ' * _column(text, spelled)}^"
        if name in (per := dict(numbers)):
            raise ValueError(f"storage '{name}={word}' is of a state per {per[name]} of {owner}, which is stored as its rule "
                             f"computes it; leave {name}= out\n{mark}")
        raise ValueError(
            f"storage '{name}={word}' names no stream of {owner}; "
            + (f"write {near[0]}={word}. There" if name in meant else f"did you mean {near[0]}? There" if near else "there")
            + f" are {', '.join(known)}{needs}\n{mark}")


def check_used(owner: str, words: StorageLike, optimizer: Any, groups: "list[dict[str, Any]]") -> None:
    """Raises ValueError where a storage line names a state that none of these groups has with its options."""
    for name, word in Storage(words).items():
        option = optimizer._only_with.get(name)
        if option in optimizer._options and not any([option in optimizer._options_of(group) for group in groups]):
            key = optimizer._keys.get(name, name)
            raise ValueError(f"{owner}: storage '{key}={word}' is for a state that is not there: {key} is stored with "
                             f"{optimizer._spelled_with()[name]}. Set it, or leave {key} out of the storage")


def _column(text, word):
    """Where a word begins that may be a part of another one."""
    return (" " + text).index(" " + word)
