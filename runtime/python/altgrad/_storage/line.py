"""The storage line in Python: what is stored in which format, one word for each stream."""

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from .word import in_full

_NAME = r"[A-Za-z_][\w.$-]*"
_FORMAT = r"[\w.+]+(?::\d*(?:x\d+)?)?(?::[\w.]*)?(?:,\w+(?::\d+)?)*"
_WORD = re.compile(f"({_NAME})=({_FORMAT})", re.ASCII)

# Streams that `states` does not name.
NO_STATES = frozenset({"param", "grad", "master", "copy", "step", "rungs"})


class Storage(Mapping[str, str]):
    """How a step stores its tensors: a format for each stream.

    A stream is one of the lists of tensors that a step works on: the parameters, their
    gradients, each state. A stream that is not named is stored as the parameter is.
    `str()` gives the storage line, the form that `altgrad-opt --storage` takes; as a
    mapping, a Storage holds the word of each stream. It cannot be changed.

    Args:
        line: Words to begin with: a storage line ("m=bf16 v=ocp.e5m2:128,keep_positive"), a mapping from
            streams to words, or another Storage.
        param: The parameter. Its format is that of its dtype; the word is there to say how it is
            rounded ("bf16,stochastic").
        grad: The gradient, which is only read.
        master: A copy of the parameter that the rule updates in the parameter's place: "f32", or
            "bf16+i16" or "bf16+i8" for the bits that a bfloat16 parameter has no room for.
        copy: A further copy of the parameter, written after each update ("ocp.e4m3fn",
            "mxfp8", "nvfp4:16x16", "ocp.e4m3fn:128x128").
        states: Every state that has no word of its own.
        **streams: One state, under the name that its rule gives it (`m` and `v` in Adam's) or under its key in
            `optimizer.state` (`exp_avg`).

    A word is a format (`altgrad-opt --list-formats` lists them), perhaps followed by the number of
    elements that share a scale (":128"), by the format of the scales (":f16"), and behind
    a comma by how it is rounded (",stochastic"). Short names such as "mxfp8" are replaced by what they mean.

    Raises:
        ValueError: A word does not have this form, or a stream is named twice.
        TypeError: A word is not a string.

    Example:
        >>> storage = altgrad.optim.Storage(param="bf16", master="f32", v="ocp.e5m2:128")
        >>> str(storage)
        'param=bf16 master=f32 v=ocp.e5m2:128'
        >>> optimizer = altgrad.optim.AdamW(model.parameters(), storage=storage)
    """

    def __init__(self, line: "StorageLike" = "", /, *, param: str | None = None, grad: str | None = None,
                 master: str | None = None, copy: str | None = None, states: str | None = None,
                 **streams: str):
        given = dict(param=param, grad=grad, master=master, copy=copy, states=states)
        named = {name: word for name, word in given.items() if word is not None} | streams
        self._words: dict[str, str] = {}
        for name, word in (*_pairs(line), *named.items()):
            self._add(name, word)

    def _add(self, name: str, word: str) -> None:
        if not isinstance(word, str) or not isinstance(name, str):
            raise TypeError(f"storage: {name!r} is given {word!r}; a format is a string such as 'bf16'")
        if not _WORD.fullmatch(f"{name}={word}"):
            raise ValueError(f"storage: '{name}={word}' is not name=format, as m=bf16; streams are separated by spaces")
        if name in self._words:
            raise ValueError(f"storage names {name!r} twice; leave one out")
        self._words[name] = in_full(word)

    def __getitem__(self, stream: str) -> str:
        return self._words[stream]

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def __len__(self) -> int:
        return len(self._words)

    def __or__(self, other: "StorageLike") -> "Storage":
        """This storage with the entries of another, which win where both name a stream.

        `states` in the other one names every state, so entries of single states give way to it.
        """
        new = Storage(other)
        kept = {name: word for name, word in self.items() if "states" not in new or name in NO_STATES}
        return Storage({**kept, **new})

    def __ror__(self, other: "StorageLike") -> "Storage":
        return Storage(other) | self

    def __hash__(self) -> int:
        return hash(frozenset(self._words.items()))

    def __str__(self) -> str:
        return " ".join(f"{name}={word}" for name, word in self._words.items())

    def __repr__(self) -> str:
        return f"altgrad.optim.Storage({str(self)!r})"


Storage.__module__ = "altgrad.optim"

# What every `storage=` takes.
StorageLike: TypeAlias = Storage | str | Mapping[str, str]


def _pairs(line: StorageLike) -> list[tuple[str, str]]:
    if isinstance(line, Mapping):
        return list(line.items())
    if not isinstance(line, str):
        raise TypeError(f"storage is {line!r}, not a line such as 'm=bf16 v=bf16', an altgrad.optim.Storage "
                        "or a dict")
    words = [word.partition("=") for word in line.split()]
    for name, equals, word in words:
        if not equals:
            raise ValueError(f"storage: {name!r} is not name=format, as m=bf16, without spaces around =")
    return [(name, word) for name, _, word in words]

