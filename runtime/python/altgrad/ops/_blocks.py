"""Tensors as codes with a scale for each block, as a step writes them into a parameter's copy."""

from array import array

import torch

from .._binding.layout import PARAM_DTYPES, dtype_of
from .._rule import format_of, in_full
from .._storage.blocks import SCALES, has_levels, block_of, check_rows, format_of_scales, is_delayed, scales_of
from .._storage.packed import pack, packs, zeros_for
from ._bound import run
from ._look import Look, look
from ._quantize import largest, quantize_codes


_DRAWN = ",stochastic"
_MOST = torch.finfo(torch.float32).max


@torch.no_grad()
def quantize_blocks(x, fmt="mxfp8"):
    """(codes, scales) of a tensor whose last dimension is cut into blocks, without a gradient.

    `x` is of float32, bfloat16 or float16. `fmt` says elements, block and scales as a storage
    line does: "mxfp8", "ocp.e4m3fn:32:ocp.e8m0,floor", "ocp.e4m3fn:128" (scales in float32).
    Codes have the shape of `x`, those of 4 bits ("mxfp4") half of its last dimension, rounded up, two to a
    byte in uint8 (`.view(torch.float4_e2m1fn_x2)`); scales (..., n / block), or (n / block,) rounded up where `x`
    has one dimension or none, whose last block may be short. Raises ValueError where a last
    dimension of several is no multiple of the block, or `fmt` has none; altgrad.Error with the
    compiler's words for a bad `fmt`; TypeError for another dtype.
    """
    if not isinstance(x, torch.Tensor) or x.dtype not in PARAM_DTYPES:
        kind = f"tensor of {x.dtype}" if isinstance(x, torch.Tensor) else type(x).__name__
        raise TypeError(f"a {kind} was given; the kernels read float32, bfloat16 and float16")
    word = in_full(fmt) if isinstance(fmt, str) else ""
    if block_of(word) < 2 or format_of_scales(word) not in SCALES or has_levels(word):
        raise ValueError(f"{fmt!r} names no blocks with scales, as 'mxfp8' and 'ocp.e4m3fn:128' do")
    if _DRAWN in word:
        raise ValueError(f"{fmt!r} rounds by draws, which are of an optimizer's seed and steps")
    x = x.contiguous()
    check_rows(x, x.stride(), block_of(word))
    shape, dtype = scales_of("copy", x, block_of(word), format_of_scales(word))
    codes = (zeros_for(x, x.stride()) if packs(word) else
             torch.empty_like(x, dtype=dtype_of(format_of(word))))
    scales = torch.empty(shape, dtype=dtype, device=x.device)
    quantize_into(x, codes, scales, word)
    return codes, scales


def quantize_into(x, codes, scales, word):
    """The same into tensors that are there; `x` and they are contiguous, `word` is in full."""
    if not x.numel():
        return
    seen = look([x], written=False)
    if not seen:
        raise TypeError(f"altgrad.quantize_blocks takes plain strided tensors, not "
                        f"{type(x).__name__} of {x.layout} on {x.device}")
    run([x], seen, (f"--quantize={format_of(word)}",), {"scale": 1.0},
        copies=([codes], _places(codes)), scales=([scales], _places(scales)), into=word)


@torch.no_grad()
def begin_copy(param, held, word):
    """Fills the copy of a parameter and its scales in `held`, before a step has.

    Where the tensor has a scale, that is TransformerEngine's, as codegen/storage/DelayedScale.cpp and
    TwoLevels.cpp have it.
    """
    if not is_delayed(word):
        # No step has drawn yet: to nearest.
        return quantize_into(param, held["copy"], held["copy_scale"], word.replace(_DRAWN, ""))
    most = param.abs().max().float() if param.numel() else torch.zeros((), device=param.device)
    # A number over a tensor would be a product with its inverse.
    top = largest(format_of(word)) * (largest(format_of_scales(word)) if has_levels(word) else 1)
    scale = (torch.full_like(most, top) / most).clamp(max=_MOST)
    scale = torch.where((most > 0) & (most < torch.inf), scale, 1.0)
    if "pow2" in word.split(","):
        scale = torch.ldexp(torch.ones_like(scale), torch.frexp(scale)[1] - 1)
    if has_levels(word):
        held["copy_tensor_scale"].copy_(1 / scale)
        held["copy_amax"].copy_(most)
        return _two_levels(param.float(), held, scale, word)
    held["copy"].copy_(quantize_codes(param.float() * scale, format_of(word)))
    held["copy_scale"].copy_(1 / scale)
    held["copy_amax"].copy_(most)


def _two_levels(param, held, scale, word):
    """Codes and the scales of their blocks, below that of the tensor."""
    if not param.numel():
        return
    block, numbers = block_of(word), param.contiguous().view(-1)
    padded = torch.nn.functional.pad(numbers, (0, -len(numbers) % block)).view(-1, block)
    wanted = padded.abs().amax(1) * (scale * torch.tensor(1 / largest(format_of(word))))
    levels = wanted.clamp(max=largest(format_of_scales(word))).to(held["copy_scale"].dtype)
    inverse = (1 / (levels.float() * held["copy_tensor_scale"])).clamp(max=_MOST)
    codes = quantize_codes((padded * inverse[:, None]).view(-1)[:len(numbers)], format_of(word))
    held["copy"].copy_(pack(word, codes).view(held["copy"].shape))
    held["copy_scale"].copy_(levels.view(held["copy_scale"].shape))


def _places(tensor):
    return Look(tensor.device, b"", array("q", [tensor.numel()]).tobytes(),
                array("Q", [tensor.data_ptr()]).tobytes(), within=True)


__all__ = ["quantize_blocks"]
