"""The operators of number formats, as torch.library has them: the same kernels, with what a tracer has to know of them."""

from typing import Tuple  # noqa: UP035  torch reads it

import torch
from torch import Tensor
from torch.library import custom_op

from . import _blocks, _quantize, _straight_through


@custom_op("altgrad::quantize", mutates_args=())
def quantize(x: Tensor, fmt: str, scale: Tensor, mask_saturated: bool) -> Tensor:
    return _quantize.quantized(x, fmt, scale)


@quantize.register_fake
def _(x, fmt, scale, mask_saturated):
    return _quantize.fake(x, fmt, scale)


quantize.register_autograd(_straight_through.pass_through, setup_context=_straight_through.keep)


@quantize.register_vmap
def _(info, in_dims, x, fmt, scale, mask_saturated):
    x, scale, place = _straight_through.batched(in_dims, x, scale)
    return quantize(x, fmt, scale, mask_saturated), place


@custom_op("altgrad::quantize_codes", mutates_args=())
def quantize_codes(x: Tensor, fmt: str, scale: Tensor) -> Tensor:
    return _quantize.codes_of(x, fmt, scale)


@quantize_codes.register_fake
def _(x, fmt, scale):
    return _quantize.fake(x, fmt, scale, _quantize.dtype_of(fmt))


@quantize_codes.register_vmap
def _(info, in_dims, x, fmt, scale):
    x, scale, place = _straight_through.batched(in_dims, x, scale)
    return quantize_codes(x, fmt, scale), place


@custom_op("altgrad::quantize_blocks", mutates_args=())
def quantize_blocks(x: Tensor, fmt: str) -> Tuple[Tensor, Tensor]:  # noqa: UP006
    return _blocks.blocks_of(x, fmt)


@quantize_blocks.register_fake
def _(x, fmt):
    return _blocks.blocks_like(x, fmt)


@quantize_blocks.register_vmap
def _(info, in_dims, x, fmt):
    return _blocks.each_of_a_batch(x, in_dims[0], fmt), (0, 0)


@custom_op("altgrad::numbers_of", mutates_args=())
def numbers_of(codes: Tensor, fmt: str) -> Tensor:
    return _quantize.numbers_of(codes, fmt)


@numbers_of.register_fake
def _(codes, fmt):
    _quantize.check_codes(codes, fmt)
    return torch.empty_like(codes, dtype=torch.float32)


@numbers_of.register_vmap
def _(info, in_dims, codes, fmt):
    return numbers_of(codes, fmt), in_dims[0]
