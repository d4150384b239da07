"""Scales that bring tensors into a format's range, and the magnitudes they follow from."""

import math
from array import array
from collections.abc import Sequence
from functools import cache
from operator import index

import torch

from .._library import library
from ._arguments import check_format, check_memory, constant, count_of, needs_dispatch

_LEAST, _MARGIN, _MOST = 1e-10, 1.01, torch.finfo(torch.float32).max


@cache
def numbers(fmt):
    """The numbers of all codes of a format, from code 0 on."""
    bits = library().altgrad_format_bits(fmt.encode())
    codes = array("B" if bits <= 8 else "H", range(1 << bits))
    found = array("f", bytes(4 << bits))
    library().altgrad_format_decode(fmt.encode(), codes.buffer_info()[0], found.buffer_info()[0], len(codes))
    return found


@cache
def bounds(fmt):
    """The least and the largest number of a format."""
    finite = list(filter(math.isfinite, numbers(fmt)))
    return min(finite), max(finite)


def compute_scale(x: float | torch.Tensor, fmt: str, *, dim: int | Sequence[int] | None = None,
                  block: int | None = None) -> torch.Tensor:
    """The scale by which `quantize` brings `x` into the range of a format.

    It is amax * 1.01 / (the largest number of `fmt`), where amax is the largest finite magnitude of `x`, and at
    least 1e-10, also where amax is below that. (The formula of altgrad's quantization engine.)

    Args:
        x: A tensor, or a number such as an amax that is already known.
        fmt: The name of a format, such as "ocp.e4m3fn".
        dim: The dimensions over which amax is taken; they keep the extent 1. None takes amax over the whole tensor.
        block: How many neighbours in the last dimension get a scale of their own, as `quantize` takes it.

    Returns:
        A float32 tensor: 0-dim, or in the shape that `dim` or `block` leaves.

    Raises:
        ValueError: `fmt` is no format, or `block` is no whole number from 1.
        IndexError: `x` has no such `dim`.
        TypeError: `x` is complex, or neither a tensor nor a number.

    Example:
        >>> scale = altgrad.quant.compute_scale(x, "ocp.e4m3fn", dim=-1)  # one for each row
    """
    check_format(fmt)
    amax = _amax(_as_numbers(x), dim, block).double()
    scale = (amax * _MARGIN / _largest(fmt)).clamp(_LEAST, _MOST)
    return torch.where(amax < _LEAST, _LEAST, scale).float()


@constant
def _largest(fmt):
    return bounds(fmt)[1]


def _as_numbers(x):
    """A tensor as it is; numbers in float64, where torch's default device does not take them."""
    if isinstance(x, torch.Tensor):
        return x
    try:
        return torch.tensor(float(x) if isinstance(x, int) else x, dtype=torch.float64, device="cpu")
    except OverflowError:
        raise ValueError("x is a number beyond float64") from None
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"x is {x!r}, neither a tensor nor numbers") from None


@torch.no_grad()
def _amax(x, dim=None, block=None):
    """The largest finite magnitude, in float64 where `x` is; 0 of nothing."""
    if x.is_complex():
        raise TypeError(f"a tensor of {x.dtype} was given; it has to be real")
    if x.layout != torch.strided:
        raise TypeError(f"a tensor of {x.layout} was given; it has to be dense: to_dense() it")
    if not needs_dispatch(x):
        check_memory(x)
    size = x.detach()
    size = (size if size.dtype == torch.float64 else size.float()).abs()
    size = torch.where(size.isfinite(), size, 0.0)
    if block is not None:
        return _amax_of_blocks(size, count_of("block", "elements", block), dim)
    if dim is None:
        return size.amax() if size.numel() else size.new_zeros(())
    dims = _dims_of(size, dim)
    if size.dim() and 0 in [size.shape[i] for i in dims]:
        return size.sum(dims, keepdim=True)
    return size.amax(dims, keepdim=True)


def _amax_of_blocks(size, block, dim):
    if dim is not None or size.dim() == 0:
        raise ValueError("block= needs a tensor with a dimension, and no dim= beside it")
    block = min(block, max(size.shape[-1], 1))
    blocks = -(-size.shape[-1] // block)
    padded = torch.nn.functional.pad(size, (0, blocks * block - size.shape[-1]))
    return padded.unflatten(-1, (blocks, block)).amax(-1)


def _dims_of(size, dim):
    try:
        dims = tuple(map(index, dim)) if isinstance(dim, (tuple, list)) else (index(dim),)
    except TypeError:
        raise TypeError(f"dim is {dim!r}; it has to be an int or several") from None
    reach = max(size.dim(), 1)
    if not all([-reach <= i < reach for i in dims]):
        raise IndexError(f"dim is {dim!r}; x has {size.dim()} dimensions")
    return dims


class AmaxHistory(torch.nn.Module):
    """The largest magnitudes of the last tensors, for a scale that is known before a tensor is (delayed scaling).

    A module with two buffers, so it moves to a device and is saved with its model. Its methods do not wait for
    a device. Numbers that are not finite do not count.

    Args:
        length: How many tensors back it looks, from 1.
        device: Where the buffers lie.

    Attributes:
        history: The magnitudes, float32 of shape (length,), whatever dtype a model is cast to.
        count: How many tensors it has seen, a 0-dim int64 tensor.

    Raises:
        ValueError: `length` is no whole number from 1.

    Example:
        >>> history = altgrad.quant.AmaxHistory()
        >>> history.update(x)
        >>> y = altgrad.quant.quantize(x, "ocp.e4m3fn", history.scale("ocp.e4m3fn"))
    """

    history: torch.Tensor
    count: torch.Tensor

    def __init__(self, length: int = 16, device: torch.device | str | int | None = None):
        super().__init__()
        length = count_of("length", "tensors", length)
        self.register_buffer("history", torch.zeros(length, dtype=torch.float32, device=device))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64, device=device))

    @torch.no_grad()
    def update(self, x: float | torch.Tensor) -> None:
        """Adds the largest finite magnitude of `x`, a tensor or a number, in place of the oldest one."""
        place = (self.count % len(self.history)).reshape(1)
        amax = _amax(_as_numbers(x)).clamp(max=torch.finfo(self.history.dtype).max)
        self.history.index_copy_(0, place, amax.to(self.history).reshape(1))
        self.count += 1

    def _apply(self, fn, recurse=True):
        # Magnitudes stay in float32, whatever dtype a model is cast to.
        before = self.history
        super()._apply(fn, recurse)
        if self.history.dtype != torch.float32:
            self.history = before.to(self.history.device)
        return self

    @property
    def amax(self) -> torch.Tensor:
        """The largest of the magnitudes, a 0-dim float32 tensor; 1 before the first update."""
        return torch.where(self.count == 0, 1.0, self.history.max().float())

    def scale(self, fmt: str) -> torch.Tensor:
        """`compute_scale` of `amax`, a 0-dim float32 tensor."""
        return compute_scale(self.amax, fmt)


AmaxHistory.__module__ = "altgrad.quant"  # where pickles look for it
