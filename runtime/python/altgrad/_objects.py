"""Where torch's objects keep what libaltgrad_core.so reads of them, found by trying it out.

An object is that to which `tensor._cdata` points. Numbers are bytes. What torch keeps in no single place is at -1, and
then torch is asked for it. Some words of an object are whatever was in memory before, so several objects are compared.
"""

from ctypes import c_uint32, c_uint64
from functools import cache

import torch

from ._library import Error

_WORDS = 23  # of an object, which has no less
_UNCLEAR = -1, 0
UNKNOWN_GRADIENT = *_UNCLEAR, 0
_MANY = 4


@cache
def inside():
    """Where an object of Python has the pointer to torch's object."""
    one, other = _samples()
    words = range(2 * 8, type(one).__basicsize__, 8)
    places = [[word for word in words if c_uint64.from_address(id(tensor) + word).value == tensor._cdata]
              for tensor in (one, other)]
    if len(places[0]) != 1 or places[0] != places[1]:
        raise Error(f"torch {torch.__version__} keeps its tensors elsewhere in Python's objects than altgrad knows: "
                    "install a newer altgrad, or an older torch", "BROKEN")
    return places[0][0]


def keys():
    """(where an object has its dispatch keys, the key of negative views)."""
    one, other = _samples()
    words = [_words_of(tensor) for tensor in (one, other, torch._neg_view(one), torch._neg_view(other))]
    places = _places(words, lambda one, other, negative, too: (
        one == other and negative == too and (one ^ negative).bit_count() == 1))
    return (places[0] * 8, words[0][places[0]] ^ words[2][places[0]]) if len(places) == 1 else _UNCLEAR


def version():
    """(where an object points to its version counter, where the count lies there, 32 bits wide).

    A tensor shares its counter with its views, and `data` has one of its own each time.
    """
    found = set()
    for tensor in _samples():
        views, others = [tensor.detach() for _ in range(_MANY)], [tensor.data for _ in range(_MANY)]
        words = [_words_of(of) for of in (tensor, *views, *others)]
        places = _places(words, lambda own, *of: {own} == {*of[:_MANY]} and len({own, *of[_MANY:]}) == 1 + _MANY)
        if len(places) != 1:
            return _UNCLEAR
        counts = range(7)  # of 32 bits: no counter is smaller
        for _ in range(2):
            before = (c_uint32 * 7).from_address(words[0][places[0]])[:]
            torch.autograd.graph.increment_version(tensor)
            after = (c_uint32 * 7).from_address(words[0][places[0]])[:]
            counts = [i for i in counts if after[i] == before[i] + 1 == tensor._version]
        found |= {(places[0] * 8, count * 4) for count in counts}
    return found.pop() if len(found) == 1 else _UNCLEAR


def gradient():
    """(where an object points to what autograd keeps, where the gradient lies there, what is there without one)."""
    _, param = _samples()
    params, others = [param, *[torch.nn.Parameter(param.data) for _ in range(_MANY)]], [param.data for _ in range(_MANY)]
    words = [_words_of(of) for of in (*params, *others)]
    places = _places(words, lambda *of: len({0, *of[:1 + _MANY]}) == 2 + _MANY and {*of[1 + _MANY:]} == {0})
    if len(places) != 1:
        return UNKNOWN_GRADIENT
    kept = (c_uint64 * 12).from_address(words[0][places[0]])
    nothing, found = kept[:], range(len(kept))
    for _ in range(2):
        param.grad = torch.empty_like(param)
        found = [i for i in found if kept[i] == param.grad._cdata]
        param.grad = None
        found = [i for i in found if kept[i] == nothing[i]]
    return (places[0] * 8, found[0] * 8, nothing[found[0]]) if len(found) == 1 else UNKNOWN_GRADIENT


def _places(words, fits):
    # In front are the type and the counts of who holds it.
    return [place for place, of in enumerate(zip(*words)) if place > 1 and fits(*of)]


def _words_of(tensor):
    return (c_uint64 * _WORDS).from_address(tensor._cdata)[:]


@cache
def _samples():
    with torch.inference_mode(False), torch.no_grad():
        return torch.empty(1, device="cpu"), torch.nn.Parameter(torch.empty((2, 3), device="cpu"))
