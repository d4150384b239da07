"""Numbers rounded to a storage format, with gradients that pass straight through."""

from array import array
from functools import cache

import torch

from .. import _core
from .._binding.device_context import is_host, unwritten
from ..ops._plan_cache import cached_plan, keep_one, one_of, run
from ..ops._tensor_list import TensorList, tensor_list
from ._arguments import (need_dispatch, as_tensor, check_format, check_memory, check_numbers, check_spread, constant,
                         is_differentiated, is_normal, needs_dispatch, is_transformed, check_scale, plain, scale_of, spread)
from ._scales import numbers
from ._sharded import prepare
from ._straight_through import StraightThrough, keep, pass_through
from ._stretches import stretches


_FEW = 1 << 16  # elements whose rounding takes no longer than to let others run meanwhile

dtype_of = constant(lambda fmt: _core.dtype_of(fmt))


def quantize(x: torch.Tensor, fmt: str, scale: float | torch.Tensor = 1.0, *, block: int | None = None,
             mask_saturated: bool = False) -> torch.Tensor:
    """x / scale rounded to the nearest number of a format, times scale; gradients pass straight through.

    Ties go to the even code, except in formats that say otherwise, such as ocp.e8m0 and the code books. A
    number beyond the largest or the smallest number of the format becomes that one. An infinity stays where the
    format has infinities. A NaN stays where the format has NaNs and is 0 otherwise. Division and product are
    those of float32; a product beyond the numbers of the dtype of `x` is an infinity. Where `x` is contiguous
    and on the device of `scale`, all of that is one pass over memory.

    The gradient of `x` is that of the result (the straight-through estimator, Bengio et al., 2013); `scale` has
    none.

    Args:
        x: A tensor of float32, bfloat16 or float16, of any shape and strides.
        fmt: The name of a format, such as "ocp.e4m3fn" (`altgrad-opt --list-formats` lists them).
        scale: A positive number, or a tensor that broadcasts against `x`, such as one of shape (rows, 1). Its
            values are not read back from a GPU.
        block: How many neighbours in the last dimension of `x` share one number of `scale`, whose last
            dimension then has ceil(n / block) numbers. None for a `scale` that broadcasts.
        mask_saturated: Whether the gradient is 0 where x / scale is beyond the largest or the smallest number.

    Returns:
        A tensor with the shape, dtype and device of `x`. Where `scale` has more elements along a dimension, or
        more dimensions, `x` is repeated along it. A DTensor gives a DTensor: every rank rounds its shard.

    Raises:
        ValueError: `fmt` is no format, or a scale is not positive and finite or has a shape that does not fit.
        TypeError: `x` is of another dtype or no tensor, or `scale` is no number.
        NotImplementedError: torch.compile meets this function under torch.func or in forward mode.

    Example:
        >>> y = altgrad.quant.quantize(x, "ocp.e4m3fn", altgrad.quant.compute_scale(x, "ocp.e4m3fn"))
    """
    if (mask_saturated is False and block is None and not (torch.is_grad_enabled() and _has_gradient(x))
            and (out := _quickly(x, fmt, scale)) is not None):
        return out
    check_numbers(x)
    check_format(fmt)
    if not isinstance(mask_saturated, bool):
        raise TypeError(f"mask_saturated is {mask_saturated!r}; it has to be True or False")
    dispatched = need_dispatch(x, scale)
    if dispatched:
        prepare(x, scale, block)
    factor = scale_of(scale, x)
    if dispatched or mask_saturated:
        factor, block = spread(factor, x, block), None
    else:
        block = check_spread(factor, x, block)
    if dispatched:
        compiling = torch.compiler.is_compiling()
        if compiling and is_differentiated():
            raise NotImplementedError("torch.compile drops the gradient of altgrad.quantize under torch.func and in "
                                      "forward mode: call those outside of what is compiled")
        way = StraightThrough.apply if not compiling and is_transformed() else torch.ops.altgrad.quantize
        return way(x, fmt, as_tensor(factor, x), mask_saturated)
    factor = check_scale(factor)
    if torch.is_grad_enabled() and _has_gradient(x):
        return PlainStraightThrough.apply(x, fmt, factor, mask_saturated, block)
    return _rounded(x, fmt, factor, block=block)


def quantize_codes(x: torch.Tensor, fmt: str, scale: float | torch.Tensor = 1.0, *,
                   block: int | None = None) -> torch.Tensor:
    """The codes of the numbers that `quantize` rounds x / scale to, without a gradient.

    Args:
        x: A tensor of float32, bfloat16 or float16, of any shape and strides.
        fmt: The name of a format, such as "ocp.e4m3fn".
        scale: As in `quantize`.
        block: As in `quantize`.

    Returns:
        A tensor with the shape and device of `x`, in torch's dtype of the format. Where torch has no such dtype,
        codes of 2 to 8 bits lie in uint8, one in the low bits of each, and codes of up to 16 bits in int16;
        `dequantize` then has to be told the format.

    Raises:
        ValueError: `fmt` is no format, or a scale is not positive and finite or has a shape that does not fit.
        TypeError: `x` is of another dtype or no tensor, or `scale` is no number.

    Example:
        >>> codes = altgrad.quant.quantize_codes(x, "altgrad.e3m4", scale)
        >>> y = altgrad.quant.dequantize(codes, scale, "altgrad.e3m4")
    """
    if block is None and (out := _quickly(x, fmt, scale, fmt)) is not None:
        return out
    check_numbers(x)
    check_format(fmt)
    dispatched = need_dispatch(x, scale)
    if dispatched:
        prepare(x, scale, block)
    factor = scale_of(scale, x)
    if dispatched:
        return torch.ops.altgrad.quantize_codes(x.detach(), fmt, as_tensor(spread(factor, x, block), x))
    block = check_spread(factor, x, block)
    with torch.no_grad():
        return _rounded(x, fmt, check_scale(factor), into=fmt, block=block)


def dequantize(x: torch.Tensor, scale: float | torch.Tensor = 1.0, fmt: str | None = None, *,
               block: int | None = None) -> torch.Tensor:
    """x * scale in float32. The gradient of `x` is `scale` times that of the result; `scale` has none.

    Args:
        x: Numbers, codes in a dtype of torch such as torch.float8_e4m3fn, or codes of `fmt` as `quantize_codes`
            gives them; of any shape.
        scale: As in `quantize`.
        fmt: The format of codes that lie in uint8 or int16; None otherwise.
        block: As in `quantize`.

    Returns:
        A float32 tensor with the shape and device of `x`.

    Raises:
        ValueError: `fmt` is no format, or a scale is not positive and finite or has a shape that does not fit.
            Values of a tensor that a tracer or a transform sees are not checked.
        TypeError: `x` is no tensor, is complex, or is of another dtype than the codes of `fmt`.

    Example:
        >>> y = altgrad.quant.dequantize(codes, scale)
    """
    if not isinstance(x, torch.Tensor) or x.is_complex():
        kind = f"tensor of {x.dtype}" if isinstance(x, torch.Tensor) else type(x).__name__
        raise TypeError(f"a {kind} was given; it has to be a real tensor")
    dispatched = need_dispatch(x, scale)
    if dispatched:
        prepare(x, scale, block)
    if fmt is not None:
        check_format(fmt)
        # A dtype of torch has torch's own gradient.
        traced = dispatched and dtype_of(fmt) in (torch.uint8, torch.int16)
        x = (torch.ops.altgrad.numbers_of if traced else numbers_of)(x, fmt)
    if is_normal(scale) and block is None:
        return x.float() * scale
    factor = spread(scale_of(scale, x), x, block)
    return x.float() * (factor if dispatched else check_scale(factor))


def _has_gradient(x):
    return isinstance(x, torch.Tensor) and x.requires_grad


class PlainStraightThrough(torch.autograd.Function):
    """StraightThrough where autograd alone looks on, without the operator."""

    @staticmethod
    def forward(ctx, x, fmt, scale, masked, block):
        out = _rounded(x, fmt, scale, block=block)
        keep(ctx, (x, fmt, as_tensor(scale) if masked else scale, masked), out)
        return out

    @staticmethod
    def backward(ctx, grad):
        return *pass_through(ctx, grad), None


# What the operators do. An element does not depend on others, so a batch is one larger tensor.

def like(x, scale, dtype=None):
    """An empty tensor for the result."""
    if not isinstance(scale, torch.Tensor) or scale.dim() == 0:
        return torch.empty_like(x, dtype=dtype)
    shape = torch.broadcast_shapes(x.shape, scale.shape)
    return (torch.empty_like(x, dtype=dtype) if shape == x.shape
            else torch.empty(shape, dtype=dtype or x.dtype, device=x.device))


def fake(x, fmt, scale, dtype=None):
    """What `quantized` and `codes_of` give, and refuse, for one who only asks how it looks."""
    check_numbers(x)
    check_format(fmt)
    return like(x, scale_of(scale, x), dtype)


def _check(x, fmt, scale):
    check_numbers(x)
    check_format(fmt)
    check_memory(x, scale)


@torch.no_grad()
def quantized(x, fmt, scale):
    _check(x, fmt, scale)
    return _rounded(plain(x), fmt, check_scale(plain(scale_of(scale, x))))


def _rounded(x, fmt, scale, into=None, block=None):
    """What `quantize` gives of a scale that was looked at, or the codes of `into`. Nothing of it has a gradient."""
    if (out := _quickly(x, fmt, scale, into)) is not None:
        return out
    if not into and dtype_of(fmt) == x.dtype and not (isinstance(scale, float) and scale == 1.0):
        # The kernel would give codes, which are of the same dtype.
        return _rounded(x.float(), fmt, scale, block=block).to(x.dtype)
    dtype, several = dtype_of(into) if into else None, isinstance(scale, torch.Tensor) and scale.dim() > 0
    if several and (found := _stretches_of(x, scale, block)):
        out = torch.empty_like(x, dtype=dtype)
        _run(x, out, fmt, scale, into, found)
        return out
    if several:
        scale = spread(scale, x, block)
        if not into:
            return torch.mul(_rounded(x.float() / scale, fmt, 1.0), scale, out=unwritten(like(x, scale)))
        x, scale = x.float() / scale, 1.0
    out = like(x, scale, dtype)
    if x.numel():
        _run(x, out, fmt, scale, into)
    return out


def _quickly(x, fmt, scale, into=None):
    """What `_rounded` gives of a few elements that are like those of an earlier call of this thread, if only autograd
    has to see it; None elsewhere."""
    if not is_normal(scale) or needs_dispatch(x) or x.is_nested or type(fmt) is not str:
        return None
    one = one_of((fmt, into, x.dtype, x.numel(), x.device))
    out = one and torch.empty_like(x, dtype=into and dtype_of(into))
    return out if one and one.run(x, out, {"scale": scale}) else None


def _stretches_of(x, scale, block):
    if (x.numel() and scale.numel() and x.is_contiguous() and x.device == scale.device
            and not (scale.is_neg() or scale._is_zerotensor())):
        return stretches(x.shape, scale.shape, scale.stride(), block)


def codes_of(x, fmt, scale):
    _check(x, fmt, scale)
    with torch.no_grad():
        return _rounded(plain(x), fmt, check_scale(plain(scale_of(scale, x))), into=fmt)


def _run(x, out, fmt, scale, into, found=None):
    """Rounds `x` into `out`; `found`: the stretches of scales that are several."""
    x = x.clone() if x._is_zerotensor() else x  # which has no memory
    listed = tensor_list([x], written=False, order=[out])
    if not listed:
        raise TypeError(f"altgrad.quantize takes plain strided tensors, not {type(x).__name__} of "
                        f"{x.layout} on {x.device}")
    # A tensor of our own lies in a row.
    begin, flags, copies = unwritten(out).data_ptr(), (f"--quantize={fmt}",), {}
    if not found:
        copies["copy"] = _places(out, listed.numels, array("Q", [begin]))
        bound = cached_plan(listed, flags, copies, into)
        bound.run(listed, {"scale": scale}, copies)
        if is_host(x.device) and x.numel() <= _FEW and (into or dtype_of(fmt) != x.dtype):
            keep_one((fmt, into, x.dtype, x.numel(), x.device), bound, x)
        return
    extent, columns, first = found
    source, numels = array("Q", listed.pointers)[0], array("q", [columns]).tobytes() * len(first)

    def rows(begin, tensor):
        step = columns * tensor.itemsize
        return _places(tensor, numels, array("Q", range(begin, begin + step * len(first), step)))
    copies["copy"] = rows(begin, out)
    copies["grad_scale"] = _places(scale, numels, array("Q", [scale.data_ptr() + 4 * place for place in first]))
    whole = rows(source, x)
    whole.kinds = listed.kinds * len(first)
    run(whole, (*flags, f"--scales={extent}"), {}, copies=copies, into=into)


def _places(tensor, numels, pointers):
    return TensorList(tensor.device, b"", numels, pointers.tobytes())


def check_codes(codes, fmt):
    check_format(fmt)
    if codes.dtype != dtype_of(fmt):
        raise TypeError(f"a tensor of {codes.dtype} was given; codes of {fmt!r} are of {dtype_of(fmt)}")


def numbers_of(codes, fmt):
    """What the codes of a format stand for; what the bits above a code are does not matter."""
    check_codes(codes, fmt)
    if dtype_of(fmt) not in (torch.uint8, torch.int16):
        return codes.float()
    table = _table(fmt, codes.device)
    return table[plain(codes).int() & len(table) - 1]


@cache
def _table(fmt, device):
    with torch.inference_mode(False):
        return torch.frombuffer(numbers(fmt), dtype=torch.float32).to(device)


__all__ = ["dequantize", "quantize", "quantize_codes"]
