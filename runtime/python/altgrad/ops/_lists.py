"""Arguments that name gradients, and whether torch is tracing."""

import ctypes
import math
from collections.abc import Iterable
from typing import TypeAlias

import torch
from torch._C import _is_tracing, _len_torch_dispatch_stack
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor

# What functions of gradients take: a tensor, or several.
Tensors: TypeAlias = torch.Tensor | Iterable[torch.Tensor]

# norm_type of torch, and altgrad-opt's word for it.
NORM_KINDS = {1.0: "l1", 2.0: "l2", math.inf: "linf"}


def list_of(tensors):
    """A list of what may be one tensor or an iterable."""
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def grads_of(parameters):
    return [param.grad for param in list_of(parameters) if param.grad is not None]


def bound_of(name, value):
    """A bound as a float; raises ValueError for what bounds nothing."""
    number = number_of(name, value)
    if not number >= 0.0:
        raise ValueError(f"{name} is {number}; a bound has to be at least 0")
    return number


def number_of(name, value):
    """A number as a float; raises ValueError for what is none, as float() does."""
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"{name} is {value!r}, not a number") from None


def single(number):
    """The nearest float32: an infinity beyond it."""
    return ctypes.c_float(number).value


def as_tensor(number, grads):
    """A number, or a 0-dim tensor, as one of float32 beside `grads`."""
    if isinstance(number, torch.Tensor):
        return number.to(grads[0].device, torch.float32)
    like = grads[0]
    if like.layout != torch.strided:
        return torch.full((), number, dtype=torch.float64, device=like.device).float()
    return like.new_full((), number, dtype=torch.float64).float()


def is_traced():
    """Whether a tracer or a mode has to see an operator instead of its kernel."""
    return torch.compiler.is_compiling() or _len_torch_dispatch_stack() > 0 or _is_tracing()


def are_fake(tensors):
    return any([isinstance(tensor, (FakeTensor, FunctionalTensor)) for tensor in tensors])


def norm_of_none(per_tensor):
    """The norm of no gradients, or the norm of each of them."""
    return torch.zeros((0,) * per_tensor, dtype=torch.float32, device="cpu")


def norm_dtype(tensors):
    """What norms of these are: those of our kernels are float32."""
    wide = {torch.float64, torch.complex128}
    return torch.float64 if wide & {tensor.dtype for tensor in tensors} else torch.float32


def check_finite(total, norm_type):
    """Raises torch's error unless a norm, or the sum that it comes from, is finite."""
    if not torch.isfinite(total).all():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, "
            "so it cannot be clipped. To disable this error and scale the gradients by the "
            "non-finite norm anyway, set `error_if_nonfinite=False`")


def coefficient_for(norm, max_norm):
    """What clipping multiplies by: the kernels' number, bit by bit."""
    # Beyond float32 a bound is infinite, which no tensor of it may be made of.
    bound = torch.full_like(norm, max_norm, dtype=torch.float64).to(norm.dtype)
    return torch.clamp(torch.div(bound, norm + 1e-6), max=1.0)
