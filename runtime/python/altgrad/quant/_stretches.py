"""How the scales of a contiguous tensor lie over it, as core/altgrad_quant.h has it."""

import ctypes
from ctypes import POINTER, c_char, c_int64
from functools import lru_cache

from .._core import core
from .._library import struct

_Stretches = struct("Stretches", extent=c_char * 8, columns=c_int64, first=POINTER(c_int64), count=c_int64)


@lru_cache(16)
def stretches(sizes, scales, steps, block):
    """A tensor of shape `sizes` in stretches of memory, each with scales that lie in a row.

    `scales` and `steps` are the shape and the strides of the scales, which broadcast against the tensor; where `block`
    is not None, the last dimension has one for each `block` neighbours. The answer is (what a scale is of, as
    altgrad-opt's --scales has it; elements of a stretch; of each stretch, where its first scale is, in elements). It is
    None where the result is larger than the tensor, and where stretches would be too many.
    """
    of, numbers = _Stretches(), lambda given: (c_int64 * len(given))(*given)
    core().altgrad_core_find_stretches(len(sizes), numbers(sizes), len(scales), numbers(scales), numbers(steps), block or 0,
                                       ctypes.byref(of))
    return (of.extent.decode(), of.columns, of.first[:of.count]) if of.count else None
