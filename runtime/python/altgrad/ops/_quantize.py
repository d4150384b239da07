"""Numbers rounded to a storage format, with gradients that pass straight through."""

import math
from array import array

import torch
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad

from .._library import library
from ..optim._layout import DTYPES, PARAM_DTYPES
from ..optim._where import stays_on_device
from ._bound import run
from ._lists import single
from ._look import Look, look


# Those whose codes torch has a dtype for.
_CODED = [word for word, dtype in DTYPES.items() if dtype != torch.float32]
# Between _LEAST and _BEYOND a number is neither 0 nor infinite in float32.
_LEAST, _BEYOND = 2.0**-150, 2.0**128 - 2.0**103


def quantize(x, fmt, scale=1.0, *, mask_saturated=False):
    """x / scale rounded to the nearest number of `fmt`, times scale: a tensor like `x`.

    `x` is of float32, bfloat16 or float16, of any layout; `fmt` a format's name, such as
    "ocp.e4m3fn" (`altgrad-opt --list-formats`). `scale` is a positive number, a 0-dim tensor (on a GPU nobody waits for it),
    or a tensor that broadcasts against `x`, as one of shape (rows, 1). Ties go to the even
    code; finite numbers beyond the largest become that one; an infinity stays where the
    format has it; a NaN stays where the format has one and is 0 otherwise. Division and
    product are those of float32.

    The gradient of `x` is that of the result (Bengio et al., 2013, the straight-through
    estimator), with `mask_saturated` 0 where |x / scale| is beyond the largest number;
    `scale` has none. Raises ValueError for an unknown format or a scale that is not
    positive and finite, TypeError for another dtype.
    """
    _check(x, fmt)
    factor = _scale_of(scale)
    if not torch.compiler.is_compiling() and _is_transformed():
        return StraightThrough.apply(x, fmt, factor, mask_saturated)
    return torch.ops.altgrad.quantize(x, fmt, factor, mask_saturated)


def quantize_codes(x, fmt, scale=1.0):
    """The codes of `quantize`, without a gradient: a tensor like `x` of the format's dtype.

    Raises ValueError for a format that torch has no dtype for.
    """
    _check(x, fmt)
    _check_coded(fmt)
    return torch.ops.altgrad.quantize_codes(x, fmt, _scale_of(scale))


def dequantize(x, scale=1.0):
    """x * scale in float32; the gradient of `x` is scale times that of the result.

    `x` holds numbers, or codes in a dtype of torch such as torch.float8_e4m3fn. `scale` is a
    number or a tensor that broadcasts against `x`; it has no gradient.
    """
    if x.is_complex():
        raise TypeError(f"a tensor of {x.dtype} was given; codes and numbers are real")
    return x.float() * (scale.detach().float() if isinstance(scale, torch.Tensor) else single(scale))


def _check(x, fmt):
    # A tracer cannot look; the operator does when it runs.
    known = isinstance(fmt, str) and fmt != "f32" and (
        torch.compiler.is_compiling() or library().altgrad_format_bits(fmt.encode()) > 0)
    if not known:
        raise ValueError(f"{fmt!r} is no format to round to; altgrad-opt --list-formats names them")
    if not isinstance(x, torch.Tensor) or x.dtype not in PARAM_DTYPES:
        kind = f"tensor of {x.dtype}" if isinstance(x, torch.Tensor) else type(x).__name__
        raise TypeError(f"a {kind} was given; the kernels read float32, bfloat16 and float16")


def _check_coded(fmt):
    if fmt not in _CODED:
        raise ValueError(f"torch has no dtype for codes of {fmt!r}; there are {', '.join(_CODED)}")


def _scale_of(scale):
    """A scale as a tensor of float32; those in tensors are looked at where they are used."""
    if isinstance(scale, torch.Tensor):
        if scale.is_complex():
            raise TypeError(f"scale is of {scale.dtype}; it is real")
        return scale.detach().float()
    if not isinstance(scale, (int, float)):
        try:
            scale = float(scale)
        except (TypeError, ValueError):
            raise TypeError(f"scale is {scale!r}, neither a number nor a tensor") from None
    if not _LEAST < scale < _BEYOND:
        raise ValueError(f"scale is {scale}; it is positive and finite in float32")
    return torch.full((), scale, dtype=torch.float32, device="cpu")


def _is_transformed():
    """Whether functorch or forward-mode differentiation looks: they know no operator's gradient."""
    return peek_interpreter_stack() is not None or forward_ad._current_level >= 0


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


def keep(ctx, inputs, output):
    x, fmt, scale, masked = inputs
    ctx.bound, ctx.shapes = largest(fmt) if masked else None, (x.shape, output.shape)
    ctx.save_for_backward(*[x, scale] * masked)


def pass_through(ctx, grad):
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
    shape = torch.broadcast_shapes(x.shape, scale.shape)
    return (torch.empty_like(x, dtype=dtype) if shape == x.shape
            else torch.empty(shape, dtype=dtype or x.dtype, device=x.device))


@torch.no_grad()
def quantized(x, fmt, scale):
    _check(x, fmt)
    _check_scale(scale)
    out = like(x, scale)
    if scale.dim():
        return torch.mul(quantized(x.float() / scale, fmt, _one()), scale, out=out)
    places = look([out], written=False)
    if x.numel():
        _run(x, out, places, fmt, scale, None)
    return out


@torch.no_grad()
def codes_of(x, fmt, scale):
    _check(x, fmt)
    _check_coded(fmt)
    _check_scale(scale)
    if scale.dim():
        x, scale = x.float() / scale, _one()
    out = like(x, scale, DTYPES[fmt])
    if x.numel():
        places = Look(x.device, b"", array("q", [x.numel()]).tobytes(),
                      array("Q", [out.data_ptr()]).tobytes(), within=True)
        _run(x, out, places, fmt, scale, fmt)
    return out


def _one():
    return torch.ones((), device="cpu")


def _check_scale(scale):
    # Nobody waits for a GPU.
    if not stays_on_device(scale) and not ((scale > 0) & (scale < math.inf)).all():
        raise ValueError(f"scale is {scale}; it is positive and finite in float32")


def _run(x, out, places, fmt, scale, into):
    seen = look([x], written=False, order=[out])
    if not seen or not places:
        raise TypeError(f"altgrad.quantize takes plain strided tensors, not {type(x).__name__} of "
                        f"{x.layout} on {x.device}")
    given = scale if stays_on_device(scale) else scale.item()
    run([x], seen, (f"--quantize={fmt}",), {"scale": given}, copies=([out], places), into=into)


def largest(fmt):
    """The largest number of a format."""
    if fmt in _CODED:
        dtype = DTYPES[fmt]
        return (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype).max
    most = torch.full((1,), torch.finfo(torch.float32).max, device="cpu")
    return quantized(most, fmt, _one()).item()


__all__ = ["dequantize", "quantize", "quantize_codes"]
