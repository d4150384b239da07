"""Numbers rounded to a storage format, with gradients that pass straight through."""

import math
from array import array

import torch

from ..optim._layout import DTYPES, PARAM_DTYPES
from ..optim._where import stays_on_device
from ._bound import run
from ._lists import are_fake, single
from ._look import Look, look


# Between them a number is neither 0 nor infinite in float32.
_LEAST, _BEYOND = 2.0**-150, 2.0**128 - 2.0**103


def quantize(x, fmt, scale=1.0, *, mask_saturated=False):
    """x / scale rounded to the nearest number of `fmt`, times scale: a tensor like `x`.

    `x` is of float32, bfloat16 or float16, of any layout; `fmt` a format's name, such as
    "ocp.e4m3fn". `scale` is a positive number, a 0-dim tensor (on a GPU nobody waits for it),
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
    factor, spread = _scale_of(scale)
    if spread is None:
        return torch.ops.altgrad.quantize(x, fmt, factor, mask_saturated)
    wide = torch.ops.altgrad.quantize(x.float() / spread, fmt, factor, mask_saturated) * spread
    return wide.to(x.dtype)


def quantize_codes(x, fmt, scale=1.0):
    """The codes of `quantize`, without a gradient: a tensor like `x` of the format's dtype."""
    _check(x, fmt)
    factor, spread = _scale_of(scale)
    return torch.ops.altgrad.quantize_codes(x if spread is None else x.float() / spread, fmt, factor)


def dequantize(x, scale=1.0):
    """x * scale in float32; the gradient of `x` is scale times that of the result.

    `x` holds numbers, or codes in a dtype of torch such as torch.float8_e4m3fn. `scale` is a
    number or a tensor that broadcasts against `x`; it has no gradient.
    """
    return x.float() * (scale.detach().float() if isinstance(scale, torch.Tensor) else single(scale))


def _check(x, fmt):
    if fmt not in DTYPES:
        raise ValueError(f"{fmt!r} is no format; there are {', '.join(DTYPES)}")
    if x.dtype not in PARAM_DTYPES:
        raise TypeError(f"a tensor of {x.dtype} was given; the kernels read float32, bfloat16 and "
                        "float16")


def _scale_of(scale):
    """(one scale as a 0-dim tensor, None), or (1, a tensor of scales)."""
    if not isinstance(scale, torch.Tensor):
        if not _LEAST < scale < _BEYOND:
            raise ValueError(f"scale is {scale}; it is positive and finite in float32")
        return torch.full((), scale, dtype=torch.float32, device="cpu"), None
    scale = scale.detach()
    if not (stays_on_device(scale) or torch.compiler.is_compiling() or are_fake([scale])):
        if not ((scale > 0) & (scale < math.inf)).all():
            raise ValueError(f"scale is {scale}; it is positive and finite")
    if scale.numel() == 1 and scale.dim() == 0:
        return scale.float(), None
    return torch.ones((), device="cpu"), scale.float()


# What the operators do.

@torch.no_grad()
def quantized(x, fmt, scale):
    out = torch.empty_like(x)
    places = look([out], written=False)
    if x.numel():
        _run(x, out, places, fmt, scale, None)
    return out


@torch.no_grad()
def codes_of(x, fmt, scale):
    out = torch.empty_like(x, dtype=DTYPES[fmt])
    if x.numel():
        places = Look(x.device, b"", array("q", [x.numel()]).tobytes(),
                      array("Q", [out.data_ptr()]).tobytes(), within=True)
        _run(x, out, places, fmt, scale, fmt)
    return out


def _run(x, out, places, fmt, scale, into):
    seen = look([x], written=False, order=[out])
    if not seen or not places:
        raise TypeError(f"altgrad.quantize takes plain strided tensors, not {type(x).__name__} of "
                        f"{x.layout} on {x.device}")
    given = scale if stays_on_device(scale) else scale.item()
    run([x], seen, (f"--quantize={fmt}",), {"scale": given}, copies=([out], places), into=into)


def largest(fmt):
    """The largest number of a format."""
    return torch.finfo(DTYPES[fmt]).max


__all__ = ["dequantize", "quantize", "quantize_codes"]
