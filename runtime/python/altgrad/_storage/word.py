"""What a word of a storage says, and how a class stores its states, as the headers of core/ have it."""

import ctypes
from ctypes import POINTER, c_char, c_char_p, c_int32, c_int64
from functools import lru_cache

from .._core import core
from .._library import Error, struct, texts_of

_Word = struct("Word", format=c_char * 32, scales=c_char * 32, bent=c_char * 16, dtype=c_int32, block=c_int32,
               columns=c_int32, multiple=c_int32, packed=c_int32, split=c_int32, both=c_int32, levels=c_int32,
               of_tensor=c_int32, past=c_int32, scaled=c_int32, min_size=c_int32)

_Line = struct("Line", rule=c_char_p, options=c_char_p, storage=c_char_p, others=c_char_p, param=c_int32, grad=c_int32,
               numel=c_int64, names=POINTER(c_char_p), keys=POINTER(c_char_p), dtypes=POINTER(c_int32), count=c_int64)

_Class = struct("Class", name=c_char_p, rule=c_char_p, storage=c_char_p, keys=c_char_p, matrices=c_char_p)


@lru_cache(1 << 10)
def word_of(word):
    """altgrad_core_word of "ocp.e4m3fn:128,stochastic"."""
    of = _Word()
    core().altgrad_core_word_of(word.encode(), ctypes.byref(of))
    return of.read()


def in_full(word):
    """"ocp.e4m3fn:32:ocp.e8m0,floor" for "mxfp8,floor"."""
    name, _, block = word.partition(",")[0].partition(":")
    if (block or "." in name) and "x" not in block:  # as classes have them: an import opens no library
        return word
    return core().altgrad_core_in_full(word.encode()).decode()


def first_word(word):
    """How a copy is stored before there was a step."""
    return core().altgrad_core_first_word(word.encode()).decode()


def check_words(words):
    """Raises ValueError where no compiler takes a word: a tensor large enough for blocks may come later."""
    try:
        core().altgrad_core_check_storage(str(words).encode())
    except Error as error:
        raise ValueError(str(error)) from None


def line_of_set(rule, options, words, param, grad, numel, others, held):
    """The set of a parameter in the words of a request, as altgrad_core_line has what it depends on: `others` is a
    list, and `held` has (the rule's name, key, dtype) of each state. Raises Error."""
    names, keys, dtypes = zip(*held) if held else ((), (), ())
    storage, line = " ".join([f"{name}={word}" for name, word in words.items()]), c_char_p()
    of = _Line.of(rule=rule.name, options=",".join(options), storage=storage, others=" ".join(others), param=param,
                  grad=grad, numel=numel, names=texts_of(names), keys=texts_of(keys), dtypes=(c_int32 * len(held))(*dtypes),
                  count=len(held))
    core().altgrad_core_set_line(ctypes.byref(of), ctypes.byref(line))
    return line.value.decode()


def class_of(name):
    """The altgrad_core_class of this name, with `keys` as a dict; None where there is none."""
    found = core().altgrad_core_class_of(name.encode())
    if not found:
        return None
    of = _Class.from_address(found).read()
    return of._replace(keys=dict([pair.split("=") for pair in of.keys.split()]))
