"""States that any number of processes can share out: numbers in the place of blocks that end within rows.

Ranks that have parts of a tensor keep float32 where their parts end within blocks, and torch.distributed.checkpoint
asks of a file the keys that it has in memory. So the blocks of such a tensor travel through it as the numbers they
stand for, and codes that stand for the same numbers are found again: a run goes on with the same bits.
"""

import sys
from math import prod

import torch

from .._binding.layout import is_dtensor
from .._binding.shards import shape_of
from .._core import state_layout, dtype_of
from .._library import library
from . import peers
from .blocks import has_blocks, scale_key
from .codes import decode, decode_blocks, encode_blocks, encode_under, largest, spread
from .packed import pack
from .word import word_of

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def callers():
    """{name: its local variables} of torch.distributed.checkpoint's functions for optimizers that wait for this call.

    They call step() and state_dict() as anybody does, and say in no other way who asks.
    """
    module = "torch.distributed.checkpoint.state_dict"
    frame, of = sys._getframe(1) if module in sys.modules else None, {}
    while frame:
        if frame.f_globals.get("__name__") == module:
            of.setdefault(frame.f_code.co_name, frame.f_locals)
        frame = frame.f_back
    return of


def travels():
    """(whether torch.distributed.checkpoint's functions for optimizers ask, whether they send whole tensors)."""
    of = callers()
    # While it loads whole tensors, it asks for parts.
    whole = "_load_optim_state_dict" in of or getattr(of.get("_get_optim_state_dict", {}).get("info"), "full_state_dict", False)
    return "_get_optim_state_dict" in of, whole


def in_numbers(held, words, param):
    """The states of a parameter, with float32 numbers in the place of blocks that end within rows of the whole.

    `words` has the word of each state of the rule that may have blocks, by its key.
    """
    shape = shape_of(param)
    row = prod(shape[1:]) if len(shape) > 1 else 1
    keys = [key for key in _blocked(held, words, param) if scale_key(key) in held and row % word_of(words[key]).block]
    return _decoded(held, keys, words, param)


def _decoded(held, keys, words, param):
    """The states of a parameter, with float32 numbers in the place of the blocks of those with these keys."""
    if not keys:
        return held
    read = peers.read({name: held[name] for key in keys for name in (key, scale_key(key))}, words, "a parameter", param)
    return {key: read.states[key].to(value.device) if key in keys else value for key, value in held.items()
            if key not in map(scale_key, keys)}


def in_blocks(held, words, param, unit):
    """The states of a parameter, with blocks in the place of float32 numbers that a file has of them, and the other way
    round where its storage has blocks from more elements on.

    `unit`: within how many elements no block may end, 0 for any.
    """
    held = _wide(held, words, param)
    made = {}
    for key, value in held.items():
        mine = (key in _blocked(held, words, param) and scale_key(key) not in held and value.dtype == torch.float32
                and value.shape == param.shape and unit % word_of(words[key]).block == 0)
        made.update(_blocks(words[key], key, value, param) if mine else {key: value})
    return made


def _blocked(held, words, param):
    """The keys of states that have blocks in the storage."""
    if is_dtensor(param):
        return []
    numel = prod(shape_of(param))
    return [key for key, word in words.items() if isinstance(held.get(key), torch.Tensor) and has_blocks(word, numel)]


def _wide(held, words, param):
    """The states of a parameter, with float32 numbers in the place of blocks that too small a tensor has in a file."""
    numel = prod(shape_of(param))
    keys = [key for key, word in words.items() if scale_key(key) in held and word_of(word).block > 1 and not has_blocks(word, numel)]
    return _decoded(held, keys, words, param)


def _blocks(word, key, value, param):
    order = torch.empty_like(param, dtype=torch.float32, device="cpu").copy_(value)
    codes, scales = again(word, peers.flat(order), word_of(word).block)
    yield scale_key(key), scales.to(value.device)
    if word_of(word).packed:
        shape, strides = state_layout(order.shape, order.stride(), pairs=True)
        yield key, pack(word, codes).to(value.device).as_strided(shape, strides)
    else:
        yield key, peers.shaped(codes, order).to(value.device)


def again(word, numbers, block):
    """(codes, scales) that stand for exactly these numbers in each block that came of such ones; else the nearest."""
    from ..quant._blocks import quantize_into  # late: it takes a second
    codes, scales = encode_blocks(word, numbers, block, quantize_into)
    wrong = _differ(word, codes, scales, numbers, block)
    for tried in _scales_near(word, numbers, scales, block) if wrong.any() else ():
        found = encode_under(word, numbers, tried, block)
        right = wrong & ~_differ(word, found, tried, numbers, block)
        scales, codes = _where(right, tried, scales), _where(spread(right, block, len(codes)), found, codes)
        wrong &= ~right
    return codes, scales


def _differ(word, codes, scales, numbers, block):
    """Whether the codes of each block stand for other numbers than these."""
    off = decode_blocks(word, codes, scales, block) != numbers
    return torch.nn.functional.pad(off, (0, -len(off) % block)).view(-1, block).any(1)


def _scales_near(word, numbers, scales, block):
    """Scales of which one has made these numbers, if any has: the largest of a block had one of the outermost codes."""
    bases = [scales]
    if not word_of(word).bent and scales.dtype.itemsize > 1:
        codes = torch.arange(256, device="cpu").to(torch.uint8)[:2**library().altgrad_format_bits(word_of(word).format.encode())]
        sizes = decode(word, codes.view(dtype_of(word_of(word).format))).abs()
        bases = [(largest(numbers, block) / size).to(scales.dtype) for size in sizes[sizes.isfinite()].unique()[-2:]]
    integers = _INTEGERS[scales.dtype.itemsize]
    for base in bases:
        for places in (0, 1, -1, 2, -2):
            yield (base.view(integers) + places).view(scales.dtype)


def _where(mask, a, b):
    """torch.where for every dtype."""
    integers = _INTEGERS[a.dtype.itemsize]
    return torch.where(mask, a.view(integers), b.view(integers)).view(a.dtype)
