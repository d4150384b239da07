"""Numbers rounded to a storage format, with gradients that pass straight through."""

import math
from array import array
from functools import cache

import torch
from torch._C import _is_tracing, _len_torch_dispatch_stack
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad

from .._binding.binder import binder
from .._binding.layout import DTYPES, PARAM_DTYPES, dtype_of
from .._binding.where import is_host, unwritten
from .._bundle import compile_gradients
from .._library import library
from .._native import native
from ._bound import run
from ._lists import single
from ._look import PLAIN, Look, look


# Between _LEAST and _BEYOND a number is neither 0 nor infinite in float32, and from _NORMAL on it is no subnormal one.
_LEAST, _NORMAL, _BEYOND = 2.0**-150, 2.0**-126, 2.0**128 - 2.0**103


def quantize(x, fmt, scale=1.0, *, block=None, mask_saturated=False):
    """x / scale rounded to the nearest number of `fmt`, times scale: a tensor like `x`.

    `x` is of float32, bfloat16 or float16, of any layout; `fmt` a format's name, such as
    "ocp.e4m3fn" (`altgrad-opt --list-formats`). `scale` is a positive number, a 0-dim tensor
    (on a GPU nobody waits for it), or a tensor that broadcasts against `x`, as one of shape
    (rows, 1). With `block`, its last dimension has one number for each `block` neighbours in
    the last dimension of `x`, the last of them perhaps fewer. Where `x` is contiguous and both
    are on one device, all of that is one pass over memory.

    Ties go to the even code; finite numbers beyond the largest become that one; an infinity
    stays where the format has it; a NaN stays where the format has one and is 0 otherwise.
    Division and product are those of float32.

    The gradient of `x` is that of the result (Bengio et al., 2013, the straight-through
    estimator), with `mask_saturated` 0 where |x / scale| is beyond the largest number;
    `scale` has none. Raises ValueError for an unknown format or a scale that is not
    positive and finite, TypeError for another dtype.
    """
    if not mask_saturated and (out := _by_native(x, fmt, scale, None, block)) is not None:
        return out
    _check(x, fmt)
    factor = spread(_scale_of(scale, x), x, block)
    if _is_seen(x) or _is_of_its_own(scale):
        transformed = not torch.compiler.is_compiling() and _is_transformed()
        way = StraightThrough.apply if transformed else torch.ops.altgrad.quantize
        return way(x, fmt, _as_tensor(factor), mask_saturated)
    factor = _looked_at(factor)
    if x.requires_grad and torch.is_grad_enabled():
        return PlainStraightThrough.apply(x, fmt, factor, mask_saturated)
    return _rounded(x, fmt, factor)


def quantize_codes(x, fmt, scale=1.0, *, block=None):
    """The codes of `quantize`, without a gradient: a tensor like `x` of the format's dtype.

    Where torch has none, codes of 2 to 8 bits lie one in a uint8, from its lowest bit on,
    those of up to 16 in an int16; `dequantize` is told the format.
    """
    if (out := _by_native(x, fmt, scale, fmt, block)) is not None:
        return out
    _check(x, fmt)
    factor = spread(_scale_of(scale, x), x, block)
    if _is_seen(x) or _is_of_its_own(scale):
        return torch.ops.altgrad.quantize_codes(x, fmt, _as_tensor(factor))
    return _codes(x, fmt, _looked_at(factor))


def dequantize(x, scale=1.0, fmt=None, *, block=None):
    """x * scale in float32; the gradient of `x` is scale times that of the result.

    `x` holds numbers, or codes in a dtype of torch such as torch.float8_e4m3fn, or codes of
    `fmt` as `quantize_codes` gives them. `scale` is as in `quantize`; it has no gradient.
    Raises what `quantize` raises for a scale, and TypeError where `x` is of another dtype than the codes of `fmt`.
    """
    if not isinstance(x, torch.Tensor) or x.is_complex():
        kind = f"tensor of {x.dtype}" if isinstance(x, torch.Tensor) else type(x).__name__
        raise TypeError(f"a {kind} was given; codes and numbers are real, in a tensor")
    if fmt is not None:
        _check_format(fmt)
        x = torch.ops.altgrad.numbers_of(x, fmt) if _is_seen(x) else numbers_of(x, fmt)
    if type(scale) is float and block is None and _NORMAL <= scale < _BEYOND:
        return x.float() * scale
    factor = _scale_of(scale, x)
    if not (_is_seen(x) or _is_of_its_own(scale)):
        factor = _looked_at(factor)
    return x.float() * spread(factor, x, block)


def spread(scale, x, block):
    """A scale for each element of the last dimension of `x` from one for each block of it."""
    if block is None:
        return scale
    check_block(block)
    if not isinstance(scale, torch.Tensor) or scale.dim() == 0 or x.dim() == 0:
        raise ValueError("blocks want a tensor with a scale for each of them, and an x that has a last dimension")
    extent = x.shape[-1]
    blocks = -(-extent // block)
    if scale.shape[-1] != blocks:
        raise ValueError(f"scale has {scale.shape[-1]} numbers in its last dimension; {extent} elements "
                         f"are {blocks} blocks of {block}")
    return scale.repeat_interleave(min(block, max(extent, 1)), -1)[..., :extent]


def check_block(block):
    if not isinstance(block, int) or isinstance(block, bool) or block < 1:
        raise ValueError(f"block is {block!r}; it is a number of elements from 1 on")


@cache
def _is_format(fmt):
    return fmt != "f32" and library().altgrad_format_bits(fmt.encode()) > 0


def _check_format(fmt):
    # A tracer cannot look; the operator does when it runs.
    if not isinstance(fmt, str) or not (fmt != "f32" if torch.compiler.is_compiling() else _is_format(fmt)):
        raise ValueError(f"{fmt!r} is no format to round to; altgrad-opt --list-formats names them")


def _check(x, fmt):
    _check_format(fmt)
    if not isinstance(x, torch.Tensor) or x.dtype not in PARAM_DTYPES:
        kind = f"tensor of {x.dtype}" if isinstance(x, torch.Tensor) else type(x).__name__
        raise TypeError(f"a {kind} was given; the kernels read float32, bfloat16 and float16")


def _scale_of(scale, x):
    """A scale for `x` as a number or a tensor of float32; those in tensors are looked at where they are used."""
    if type(scale) is float and _NORMAL <= scale < _BEYOND:
        return scale
    if isinstance(scale, torch.Tensor):
        if scale.is_complex():
            raise TypeError(f"scale is of {scale.dtype}; it is real")
        if scale.device.type == "meta" != x.device.type:
            raise ValueError(f"scale is on meta, where it has no number, and x on {x.device}")
        scale = scale.detach().float()
        # The names of a result are those of `x`.
        return scale if torch.compiler.is_compiling() or not scale.has_names() else scale.rename(None)
    if not isinstance(scale, float):
        try:
            scale = float(scale)
        except OverflowError:
            scale = math.inf
        except (TypeError, ValueError):
            raise TypeError(f"scale is {scale!r}, neither a number nor a tensor") from None
    if _LEAST < scale < _BEYOND:
        number = scale if torch.compiler.is_compiling() else single(scale)
        if number > 0:  # where subnormal numbers are flushed it may be 0
            return number
    raise ValueError(f"scale is {scale}; it is positive and finite in float32")


def _as_tensor(scale):
    return scale if isinstance(scale, torch.Tensor) else torch.full((), scale, dtype=torch.float32, device="cpu")


def _is_transformed():
    """Whether functorch or forward-mode differentiation looks: they know no operator's gradient."""
    return peek_interpreter_stack() is not None or forward_ad._current_level >= 0


def _is_seen(x):
    """Whether somebody but autograd looks on: a tracer, a transform, a mode, a class of its own, or meta without
    memory. Else the operator's way around is spared, which takes longer than to round 10,000 elements."""
    return (torch.compiler.is_compiling() or _is_transformed() or type(x) not in PLAIN or x.is_meta
            or _len_torch_dispatch_stack() > 0 or _is_tracing())


def _is_of_its_own(scale):
    """Whether `scale` is of a class that an operator asks what to do."""
    return isinstance(scale, torch.Tensor) and type(scale) not in PLAIN


class StraightThrough(torch.autograd.Function):
    """The operator with the gradient that it has, for transforms that ask a Function."""

    @staticmethod
    def forward(x, fmt, scale, masked):
        return torch.ops.altgrad.quantize(x, fmt, scale, masked)

    @staticmethod
    def setup_context(ctx, inputs, output):
        keep(ctx, inputs, output)
        ctx.save_for_forward(*inputs[::2] * inputs[3])

    @staticmethod
    def backward(ctx, grad):
        return pass_through(ctx, grad)

    @staticmethod
    def jvp(ctx, tangent, *_):
        return masked_by(ctx, tangent.expand(ctx.shapes[1]))

    @staticmethod
    def vmap(info, in_dims, x, fmt, scale, masked):
        x, scale, place = batched(in_dims, x, scale)
        return StraightThrough.apply(x, fmt, scale, masked), place


class PlainStraightThrough(torch.autograd.Function):
    """StraightThrough where autograd alone looks on, without the operator."""

    @staticmethod
    def forward(ctx, x, fmt, scale, masked):
        out = _rounded(x, fmt, scale)
        keep(ctx, (x, fmt, _as_tensor(scale) if masked else scale, masked), out)
        return out

    @staticmethod
    def backward(ctx, grad):
        return pass_through(ctx, grad)


def keep(ctx, inputs, output):
    x, fmt, scale, masked = inputs
    ctx.set_materialize_grads(False)
    ctx.bound, ctx.shapes = largest(fmt) if masked else None, (x.shape, output.shape)
    ctx.save_for_backward(*[x, scale] * masked)


def pass_through(ctx, grad):
    if grad is None:
        return None, None, None, None
    grad = masked_by(ctx, grad)
    # A scale with more elements has repeated those of `x`.
    return grad.sum_to_size(ctx.shapes[0]) if grad.shape != ctx.shapes[0] else grad, None, None, None


def masked_by(ctx, grad):
    if ctx.bound is None:
        return grad
    x, scale = ctx.saved_tensors
    return torch.where((x.float() / scale).abs() <= ctx.bound, grad, 0.0)


def batched(in_dims, x, scale):
    """(x, scale, place of the batch in the result) that broadcast as those of each example do."""
    place, _, of_scale, *_ = in_dims
    if of_scale is None and scale.dim() == 0:
        return x, scale, place
    rank = max(x.dim() - (place is not None), scale.dim() - (of_scale is not None))

    def front(tensor, dim):
        if dim is None:
            return tensor
        tensor = tensor.movedim(dim, 0)
        return tensor.view(len(tensor), *[1] * (rank + 1 - tensor.dim()), *tensor.shape[1:])
    return front(x, place), front(scale, of_scale), 0


# What the operators do. An element does not depend on others, so a batch is one larger tensor.

def like(x, scale, dtype=None):
    """An empty tensor for the result."""
    if not isinstance(scale, torch.Tensor) or scale.dim() == 0:
        return torch.empty_like(x, dtype=dtype)
    shape = torch.broadcast_shapes(x.shape, scale.shape)
    return (torch.empty_like(x, dtype=dtype) if shape == x.shape
            else torch.empty(shape, dtype=dtype or x.dtype, device=x.device))


@torch.no_grad()
def quantized(x, fmt, scale):
    _check(x, fmt)
    return _rounded(x, fmt, _looked_at(scale))


def _rounded(x, fmt, scale):
    """What `quantize` gives of a scale that was looked at. Outside native code nothing of it has a gradient."""
    if (out := _by_native(x, fmt, scale, None)) is not None:
        return out
    if isinstance(scale, torch.Tensor) and scale.dim():
        return torch.mul(_rounded(x.float() / scale, fmt, 1.0), scale, out=unwritten(like(x, scale)))
    if DTYPES.get(fmt) == x.dtype and not (isinstance(scale, float) and scale == 1.0):
        # The kernel would give codes, which are of the same dtype.
        return _rounded(x.float(), fmt, scale).to(x.dtype)
    out = like(x, scale)
    if x.numel():
        _run(x, out, fmt, scale, None)
    return out


def codes_of(x, fmt, scale):
    _check(x, fmt)
    return _codes(x, fmt, _looked_at(scale))


def _codes(x, fmt, scale):
    if (out := _by_native(x, fmt, scale, fmt)) is not None:
        return out
    with torch.no_grad():
        if isinstance(scale, torch.Tensor) and scale.dim():
            x, scale = x.float() / scale, 1.0
        out = like(x, scale, dtype_of(fmt))
        if x.numel():
            _run(x, out, fmt, scale, fmt)
    return out


def _looked_at(scale):
    """A scale that is positive and finite; the host's single ones as numbers. Nobody waits for a GPU."""
    if type(scale) is float or not is_host(scale.device) or scale.numel() == 0:
        return scale
    least, greatest = [end.item() for end in (scale.aminmax() if scale.dim() else (scale, scale))]
    if not (least > 0 and greatest < math.inf):  # of a NaN neither is true
        raise ValueError(f"scale is {scale}; it is positive and finite in float32")
    return scale if scale.dim() else least


def _by_native(x, fmt, scale, into, block=None):
    """The result where nobody but autograd looks on and native code takes `x` and the scale, in a fifth of the time of
    `_run` for small ones: with its gradient, which is not masked. None elsewhere, and where something is wrong."""
    if (torch.compiler.is_compiling() or type(fmt) is not str
            or block is not None and (type(block) is not int or not 0 < block < 1 << 62)):
        return None
    kernel = _kernel_for(fmt, into)
    return kernel and kernel(x, scale, block or 0)


@cache
def _kernel_for(fmt, into):
    if binder() != "native" or not _is_format(fmt):
        return None

    def bundle(word, scales, on_host):
        return compile_gradients([f"grad={word} copy={into or word}"], (f"--quantize={fmt}",
                                 *[f"--scales={scales}"] * bool(scales)), on_host).handle.value
    return native().Rounding(fmt, bundle, dtype_of(into) if into else None).run


def _run(x, out, fmt, scale, into):
    x = x.clone() if x._is_zerotensor() else x  # which has no memory
    seen = look([x], written=False, order=[out])
    if not seen:
        raise TypeError(f"altgrad.quantize takes plain strided tensors, not {type(x).__name__} of "
                        f"{x.layout} on {x.device}")
    # A tensor of our own lies in a row.
    places = Look(out.device, b"", array("q", [out.numel()]).tobytes(),
                  array("Q", [unwritten(out).data_ptr()]).tobytes(), within=True)
    run([x], seen, (f"--quantize={fmt}",), {"scale": scale}, copies={"copy": ([out], places)}, into=into)


@cache
def largest(fmt):
    """The largest number of a format."""
    return max(filter(math.isfinite, _numbers(fmt)))


@cache
def _numbers(fmt):
    """The numbers of all codes of a format, from code 0 on."""
    bits = library().altgrad_format_bits(fmt.encode())
    codes = array("B" if bits <= 8 else "H", range(1 << bits))
    numbers = array("f", bytes(4 << bits))
    library().altgrad_format_decode(fmt.encode(), codes.buffer_info()[0], numbers.buffer_info()[0], len(codes))
    return numbers


def numbers_of(codes, fmt):
    """What the codes of a format stand for; what the bits above a code are does not matter."""
    _check_format(fmt)
    if codes.dtype != dtype_of(fmt):
        raise TypeError(f"a tensor of {codes.dtype} was given; codes of {fmt!r} are of {dtype_of(fmt)}")
    if fmt in DTYPES:
        return codes.float()
    numbers = _table(fmt, codes.device)
    return numbers[codes.int() & len(numbers) - 1]


@cache
def _table(fmt, device):
    with torch.inference_mode(False):
        return torch.frombuffer(_numbers(fmt), dtype=torch.float32).to(device)


__all__ = ["dequantize", "quantize", "quantize_codes"]
