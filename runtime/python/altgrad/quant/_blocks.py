"""Tensors as codes with a scale for each block, as a step writes them into a parameter's copy."""

from array import array

import torch

from .._core import state_layout, core, dtype_of
from .._binding.device_context import unwritten
from .._library import Error
from .._storage.blocks import COLUMNS, SCALES, rows_of, scale_key, span_of
from .._storage.word import first_word, in_full, word_of
from ..ops._plan_cache import run
from ..ops._tensor_list import TensorList, tensor_list
from ._arguments import check_numbers, needs_dispatch, plain


def quantize_blocks(x: torch.Tensor, fmt: str = "mxfp8") -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of a tensor whose last dimension is cut into blocks, without a gradient.

    Args:
        x: A tensor of float32, bfloat16 or float16. With two dimensions or more, the last one is a multiple of
            the block.
        fmt: Elements, block and scales in the words of a storage line: "mxfp8", "mxfp4",
            "ocp.e4m3fn:32:ocp.e8m0,floor", "ocp.e4m3fn:128" (scales in float32), or "ocp.e4m3fn:128x128" and
            "mxfp8:32x32", whose blocks have so many rows and columns and may be cut off at an edge. Rows go over
            all dimensions but the last.

    Returns:
        (codes, scales). Codes have the shape of `x`; codes of 4 bits lie two to a byte in uint8, and have half
        of its last dimension, rounded up (`.view(torch.float4_e2m1fn_x2)`). Scales have the shape (..., n /
        block); (ceil(n / block),) where `x` has one dimension or none; (ceil(rows / 32), ceil(columns / 32))
        for such blocks of rows and columns.

    Raises:
        ValueError: The last dimension is no multiple of the block, or `fmt` names no blocks with scales.
        TypeError: `x` is of another dtype or no tensor.
        altgrad.Error: The compiler refuses `fmt`, in its own words.

    Example:
        >>> codes, scales = altgrad.quant.quantize_blocks(weight, "mxfp8")
    """
    if isinstance(x, torch.Tensor) and needs_dispatch(x):
        return torch.ops.altgrad.quantize_blocks(x.detach(), fmt)
    return blocks_of(x, fmt)


@torch.no_grad()
def blocks_of(x, fmt):
    """What the operator does."""
    word = _checked(x, fmt)
    x = plain(x)
    x = x.clone() if x._is_zerotensor() else x.contiguous().resolve_neg()
    codes, scales = _empties(x, word)
    unwritten(codes)
    quantize_into(x, codes.zero_() if word_of(word).packed else codes, scales, word)
    return codes, scales


def blocks_like(x, fmt):
    """Its results for one who only asks how they look."""
    return _empties(x.contiguous(), _checked(x, fmt))


def each_of_a_batch(x, place, fmt):
    """Its results for tensors along dimension `place`, in front: an example's last block may be short."""
    x = x.movedim(place, 0)
    if word_of(in_full(fmt)).columns:  # of each example's own rows
        return _one_by_one(x, fmt)
    if x.dim() > 2:
        return torch.ops.altgrad.quantize_blocks(x, fmt)
    block, length = word_of(_checked(x[:0], fmt)).block, x[0].numel() if len(x) else x.shape[1:].numel()
    padded = torch.nn.functional.pad(x.reshape(len(x), length), (0, -length % block))
    codes, scales = torch.ops.altgrad.quantize_blocks(padded, fmt)
    codes = codes[:, :-(-length * codes.shape[1] // padded.shape[1])] if padded.shape[1] else codes
    return codes.reshape(len(x), *codes.shape[1:][:x.dim() - 1]).clone(), scales


def _one_by_one(x, fmt):
    first = blocks_like(x.new_empty(x.shape[1:]), fmt)
    pairs = [torch.ops.altgrad.quantize_blocks(example, fmt) for example in x]
    return tuple(torch.stack(parts) if parts else like.new_empty((0, *like.shape))
                 for parts, like in zip(list(zip(*pairs)) or [(), ()], first))


def _checked(x, fmt):
    """The word of `fmt` in full, if `x` can be cut into its blocks."""
    check_numbers(x)
    try:
        word = core().altgrad_core_blocks_word(str(fmt).encode("ascii", "backslashreplace").replace(b"\0", b"\\0")).decode()
    except Error as error:
        raise ValueError(str(error)) from None
    if x.dim() > 1 and x.numel() and x.shape[-1] % word_of(word).multiple:
        raise ValueError(f"a tensor of shape {tuple(x.shape)} has rows of {x.shape[-1]} elements, no multiple of the "
                         f"{word_of(word).multiple} in a block of {fmt!r}: pad it, or give it in one dimension")
    return word


def _empties(x, word):
    """Memory for codes and scales of a contiguous tensor."""
    block, columns = span_of(word)
    # torch.compile may count rows by a symbol, and what lies beside a row does not depend on the others.
    front = x.shape[:-1] if not columns else ()
    row = *[1 for _ in front], *x.shape[len(front):]
    strides = [*[row[-1]] * len(front), 1] if front else x.stride()
    codes, scales = [(*front, *state_layout(row, strides, *of, copy=True)[0][len(front):])
                     for of in ((1, 0, word_of(word).packed), (block, columns))]
    return (x.new_empty(codes, dtype=torch.uint8 if word_of(word).packed else dtype_of(word_of(word).format)),
            x.new_empty(scales, dtype=SCALES[word_of(word).scales]))


def quantize_into(x, codes, scales, word):
    """The same into tensors that are there; `x` and they are contiguous, `word` is in full."""
    if not x.numel():
        return
    listed = tensor_list([x], written=False)
    if not listed:
        raise TypeError(f"altgrad.quant.quantize_blocks takes plain strided tensors, not "
                        f"{type(x).__name__} of {x.layout} on {x.device}")
    _run(x, listed, word, {"copy": codes, "copy_scale": scales})


def _run(x, listed, word, held):
    run(listed, (f"--quantize={word_of(word).format}",), {"scale": 1.0}, into=word,
        copies={key: _places(tensor) for key, tensor in held.items()},
        rows=(rows_of(x),) if word_of(word).columns else None)


@torch.no_grad()
def begin_copy(param, held, word):
    """Fills the copy of a parameter and its scales in `held`, before a step has.

    No step has drawn yet: to nearest. Nor is there one to look back to: one scale is by the
    parameter's own largest number, which a history begins with.
    """
    of, first, param = word_of(word), first_word(word), param.resolve_neg()
    if not of.of_tensor and not of.levels:
        quantize_into(param, held["copy"], held["copy_scale"], first)
        return _begin_columns(param, held, first) if of.both else None
    parts = {key: value for key, value in held.items() if key in ("copy", "copy_scale", "copy_tensor_scale")}
    parts["copy_amax"] = held.get("copy_amax", torch.empty((), dtype=torch.float32, device=param.device))
    _run(param, tensor_list([param], written=False), first, parts)


def _begin_columns(param, held, word):
    """The columns as rows of a matrix that zeros, of which no block is the largest, make one of whole blocks."""
    if not param.numel():
        return
    codes, scales = held[COLUMNS], held[scale_key(COLUMNS)]
    rows, block = rows_of(param), word_of(word).block
    turned = torch.zeros(param.numel() // rows, -(-rows // block) * block, dtype=param.dtype, device=param.device)
    turned[:, :rows] = param.reshape(rows, -1).t()
    found, units = _empties(turned, word)
    quantize_into(turned, found, units, word)
    codes.copy_(found[:, :rows].t().reshape(codes.shape))
    scales.copy_(units.t())


def _places(tensor):
    return TensorList(tensor.device, b"", array("q", [tensor.numel()]).tobytes(),
                      array("Q", [tensor.data_ptr()]).tobytes())


__all__ = ["quantize_blocks"]
