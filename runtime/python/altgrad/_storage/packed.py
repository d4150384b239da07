"""4-bit codes, two to a byte: the shape of the bytes, packing and unpacking."""

import torch

from .._core import state_layout
from .._library import library
from .word import word_of

_EVEN_HIGH = 2  # of altgrad_format_even: the even element's code is the upper half


def layout_of(packed, shape):
    """The strides of a tensor of this shape whose codes are packed so; ValueError if none has them."""
    shape = tuple(shape)
    inner = [i for i, size in enumerate(packed.shape) if size != 1 and packed.stride(i) == 1] or [len(shape) - 1]
    ahead = sorted((i for i in range(len(shape)) if i != inner[0]), key=lambda i: -packed.stride(i))
    strides, count = [1] * len(shape), 1
    for i in reversed((*ahead, *inner[:len(shape)])):
        strides[i], count = count, count * shape[i]
    if state_layout(shape, strides, pairs=True)[0] != tuple(packed.shape):
        raise ValueError(f"codes of shape {tuple(packed.shape)}, two to a byte, do not belong to a tensor of shape {shape}")
    return tuple(strides)


def pack(word, codes):
    """The bytes of codes, of one dimension; behind an odd number of them are four zeros."""
    codes = torch.nn.functional.pad(codes, (0, len(codes) % 2)) & 15
    even, odd = codes[::2], codes[1::2]
    return even << 4 | odd if _even_is_high(word) else even | odd << 4


def unpack(word, codes, count):
    """`count` codes out of bytes of one dimension."""
    halves = [codes & 15, codes >> 4]
    return torch.stack(halves[::-1] if _even_is_high(word) else halves, 1).view(-1)[:count]


def _even_is_high(word):
    return library().altgrad_format_even(word_of(word).format.encode()) == _EVEN_HIGH
