"""Checks the arguments of quantize and its relatives, and finds out whether torch traces or transforms them."""

import math
from contextlib import nullcontext
from functools import cache
from numbers import Integral

import torch
from torch._C import _is_tracing, _len_torch_dispatch_stack
from torch._C._functorch import TransformType, get_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad

from .._binding.layout import PARAM_DTYPES, check_extent
from .._binding.device_context import is_host
from .._library import library
from ..ops._lists import single
from ..ops._tensor_list import PLAIN


def constant(fn):
    """A function that torch.compile calls while it traces, and whose result a graph has as a constant.

    It is torch.compiler.assume_constant_result, which imports torch._dynamo and sympy for that: some seconds.
    """
    fn._dynamo_marked_constant = True
    return fn


# Between _LEAST and _BEYOND a number is neither 0 nor infinite in float32, and from _NORMAL on it is no subnormal one.
_LEAST, _NORMAL, _BEYOND = 2.0**-150, 2.0**-126, 2.0**128 - 2.0**103


def check_numbers(x):
    """Raises TypeError for what no kernel reads."""
    if not isinstance(x, torch.Tensor) or x.dtype not in PARAM_DTYPES:
        kind = f"tensor of {x.dtype}" if isinstance(x, torch.Tensor) else type(x).__name__
        raise TypeError(f"a {kind} was given; the kernels read float32, bfloat16 and float16")
    if type(x) in PLAIN and x.layout != torch.strided:
        raise TypeError(f"a tensor of {x.layout} was given; the kernels read dense ones: to_dense() it")


def check_memory(*tensors):
    """Raises RuntimeError where elements of plain tensors lie beyond the end of their storage."""
    for tensor in tensors:
        if (isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided
                and not (tensor.is_meta or tensor.is_nested)):
            check_extent(tensor)


def plain(x):
    """A tensor of a class without a kernel of its own, as torch's."""
    return x if type(x) in PLAIN else x.as_subclass(torch.Tensor)


@cache
def _is_known(fmt):
    return fmt.isascii() and "\0" not in fmt and fmt != "f32" and library().altgrad_format_bits(fmt.encode()) > 0


@constant
def is_format(fmt):
    """Whether numbers can be rounded to it."""
    return isinstance(fmt, str) and _is_known(fmt)


def check_format(fmt):
    if not is_format(fmt):
        raise ValueError(f"{fmt!r} is no format to round to; altgrad-opt --list-formats names them")


def count_of(name, what, number):
    """`number` as an int; raises ValueError for what counts none."""
    if not isinstance(number, Integral) or isinstance(number, bool) or number < 1:
        raise ValueError(f"{name} is {number!r}; it has to be a whole number of {what}, at least 1")
    return number if isinstance(number, int) else int(number)


def is_normal(scale):
    """Whether a scale is a positive float that stays the same where subnormal numbers are flushed to zero."""
    return type(scale) is float and _NORMAL <= scale < _BEYOND


def scale_of(scale, x):
    """A scale for `x` as a number or a tensor of float32; those in tensors are looked at where they are used."""
    if is_normal(scale):
        return scale
    if isinstance(scale, torch.Tensor):
        return _read(scale, x)
    if not isinstance(scale, float):
        try:
            if isinstance(scale, (str, bytes, bytearray)):
                raise TypeError
            scale = float(scale)
        except OverflowError:
            scale = math.inf
        except (TypeError, ValueError):
            raise TypeError(f"scale is {scale!r}, neither a number nor a tensor") from None
    if _LEAST < scale < _BEYOND:
        number = scale if torch.compiler.is_compiling() else single(scale)
        if number > 0:  # where subnormal numbers are flushed it may be 0
            return number
    raise ValueError(f"scale is {scale}; it has to be positive and finite in float32")


def _read(scale, x):
    if scale.is_complex():
        raise TypeError(f"scale is of {scale.dtype}; it has to be real")
    if type(scale) in PLAIN and (scale.layout != torch.strided or scale.is_quantized or scale.is_nested):
        kind = scale.layout if scale.layout != torch.strided else scale.dtype if scale.is_quantized else "nested"
        raise TypeError(f"scale is a tensor that is {kind}; it has to be dense")
    if scale.device.type == "meta" != x.device.type:
        raise ValueError(f"scale is on the meta device, which holds no numbers, and x is on {x.device}")
    scale = scale.detach().float()
    # The names of a result are those of `x`; torch 2.15 has no names any more.
    has_names = not torch.compiler.is_compiling() and getattr(scale, "has_names", bool)()
    return scale.rename(None) if has_names else scale


def check_scale(scale):
    """Checks that a scale on the host is positive and finite, and makes a single one a number. Reads nothing from a GPU."""
    if type(scale) is float or not is_host(scale.device) or scale.numel() == 0:
        return scale
    least, greatest = [end.item() for end in (scale.aminmax() if scale.dim() else (scale, scale))]
    if not (least > 0 and greatest < math.inf):  # of a NaN neither is true
        raise ValueError(f"scale is {scale}; it has to be positive and finite in float32")
    return scale if scale.dim() else least


def spread(scale, x, block):
    """A scale for each element of the last dimension of `x` from one for each block of it."""
    block = check_spread(scale, x, block)
    if block is None:
        return scale
    extent = x.shape[-1]
    return scale.repeat_interleave(min(block, max(extent, 1)), -1)[..., :extent]


def check_spread(scale, x, block):
    """`block` as an int or None; raises ValueError where the scales do not fit."""
    if block is not None:
        block = count_of("block", "elements", block)
        _check_blocks(scale, x, block)
    if isinstance(scale, torch.Tensor):
        ends = reversed(scale.shape), reversed(x.shape)
        for place, (own, other) in enumerate(zip(*ends)):
            if own != other and own != 1 and other != 1 and (block is None or place):
                raise ValueError(f"scale has the shape {tuple(scale.shape)}, which does not broadcast against "
                                 f"{tuple(x.shape)}, that of x")
    return block


def _check_blocks(scale, x, block):
    if not isinstance(scale, torch.Tensor) or scale.dim() == 0 or x.dim() == 0:
        raise ValueError("block= needs a scale that is a tensor with a number for each block, and an x with a dimension")
    extent = x.shape[-1]
    blocks = -(-extent // block)
    if scale.shape[-1] != blocks:
        raise ValueError(f"scale has {scale.shape[-1]} numbers in its last dimension; it has to have "
                         f"{blocks}, because the {extent} elements of x are {blocks} blocks of {block}")


def as_tensor(scale, x=None):
    """A scale as a tensor; of a fake `x` it is fake, too."""
    if isinstance(scale, torch.Tensor):
        return scale
    with x.fake_mode if isinstance(x, FakeTensor) else nullcontext():
        return torch.full((), scale, dtype=torch.float32, device="cpu")


def _levels():
    return {level.key() for level in get_interpreter_stack() or ()}


def is_transformed():
    """Whether functorch or forward-mode differentiation is active, which do not know an operator's gradient."""
    return forward_ad._current_level >= 0 or _is_in_functorch()


@constant
def _is_in_functorch():  # which a graph of torch.compile is made for; it looks at the level of forward mode itself
    return bool(_levels() - {TransformType.Functionalize})


@constant
def is_differentiated():
    """Whether functorch or forward mode differentiates."""
    return forward_ad._current_level >= 0 or bool(_levels() & {TransformType.Grad, TransformType.Jvp})


def needs_dispatch(x):
    """Whether more than autograd has to see the call: a tracer, a transform, a mode, the class of a tensor; or whether
    the tensor is on the meta device. Otherwise the kernel is called directly, because the call of an operator takes
    longer than rounding 10,000 elements."""
    return (torch.compiler.is_compiling() or get_interpreter_stack() is not None or forward_ad._current_level >= 0
            or type(x) not in PLAIN or x.is_meta or _len_torch_dispatch_stack() > 0 or _is_tracing())


def need_dispatch(x, scale):
    """`needs_dispatch` of both tensors: an operator also asks the class of a scale. Otherwise raises RuntimeError if
    elements lie beyond the end of a storage."""
    if needs_dispatch(x) or (isinstance(scale, torch.Tensor) and type(scale) not in PLAIN):
        return True
    check_memory(x, scale)
    return False
