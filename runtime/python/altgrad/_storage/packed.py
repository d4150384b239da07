"""4-bit codes, two to a byte: the shape of the bytes, packing and unpacking."""

from math import prod

import torch

from .._library import library
from .._rule import format_of

_EVEN_HIGH = 2  # of altgrad_format_even: the even element's code is the upper half


def block_of(word):
    """How many elements share a scale: 128 in "ocp.e4m3fn:128", 1 in "f32"."""
    block = word.partition(",")[0].split(":")[1:2]
    return int(block[0]) if block and block[0].isdecimal() else 1


def packs(word):
    """Whether a word of storage has two codes to a byte: 4 bits, and a scale for each block."""
    return block_of(word) > 1 and library().altgrad_format_even(format_of(word).encode()) != 0


def packed_layout(shape, strides):
    """(shape, strides) of the bytes for codes of a dense tensor's elements, in the order of its memory.

    The dimension whose elements are neighbours has half of them. Where that is odd, it has all
    the bytes of the tensor and the others 1. Raises ValueError where these would not say which
    order the others had.
    """
    shape, strides = tuple(shape), tuple(strides)
    real = [i for i, size in enumerate(shape) if size != 1] or list(range(len(shape)))[-1:]
    if not real:
        return shape, strides
    inner = min(reversed(real), key=lambda i: strides[i])
    numel = prod(shape)
    if numel == 0 or shape[inner] % 2 == 0:
        halved = tuple(size // 2 if i == inner else size for i, size in enumerate(shape))
        return halved, tuple(stride if i == inner else max(stride // 2, 1) for i, stride in enumerate(strides))
    rest = [strides[i] for i in real if i != inner]
    if rest != sorted(rest, reverse=True):
        raise ValueError(f"a parameter of shape {shape} and strides {strides} has an odd number of elements in "
                         "its innermost dimension, so two codes in a byte cannot keep its order: make it contiguous")
    count = -(-numel // 2)
    return (tuple(count if i == inner else 1 for i in range(len(shape))),
            tuple(1 if i == inner else count for i in range(len(shape))))


def layout_of(packed, shape):
    """The strides of a tensor of this shape whose codes are packed so; ValueError if none has them."""
    shape = tuple(shape)
    inner = [i for i, size in enumerate(packed.shape) if size != 1 and packed.stride(i) == 1] or [len(shape) - 1]
    ahead = sorted((i for i in range(len(shape)) if i != inner[0]), key=lambda i: -packed.stride(i))
    strides, count = [1] * len(shape), 1
    for i in reversed((*ahead, *inner[:len(shape)])):
        strides[i], count = count, count * shape[i]
    if packed_layout(shape, strides)[0] != tuple(packed.shape):
        raise ValueError(f"codes of shape {tuple(packed.shape)}, two to a byte, do not belong to a tensor of shape {shape}")
    return tuple(strides)


def bytes_for(param, strides):
    """Bytes for a parameter whose memory is in the order of `strides`, to be filled with zeros."""
    shape, strides = packed_layout(param.shape, strides)
    return torch.empty_strided(shape, strides, dtype=torch.uint8, device=param.device)


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
    return library().altgrad_format_even(format_of(word).encode()) == _EVEN_HIGH
