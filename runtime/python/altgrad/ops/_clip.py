"""Norms of gradients, and clipping in place."""

from typing import TYPE_CHECKING

import torch

from . import _fallback
from ._across_ranks import clip_across, norm_across, ranks_among
from ._plan_cache import run
from ._lists import (NORM_KINDS, Tensors, are_fake, bound_of, number_of, check_finite, coefficient_for, grads_of, is_traced,
                     list_of, norm_of_none, single)
from ._tensor_list import tensor_list

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def clip_grad_norm_(parameters: Tensors, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                    foreach: bool | None = None, *, per_tensor: bool = False,
                    return_coefficient: bool = False, process_group: "ProcessGroup | None" = None
                    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Clips the norm of all gradients of `parameters` in place, as torch.nn.utils.clip_grad_norm_ does.

    Gradients are multiplied by min(1, max_norm / (norm + 1e-6)). Where that is 1 they are not written. The
    kernels take gradients of float32, bfloat16 and float16 on one device; torch clips what they do not
    take: another `norm_type`, float64, complex and sparse gradients, several devices. The norm of DTensors is that of
    all ranks of their meshes, which may be several, with plain tensors beside them; every rank of a mesh calls it.

    Args:
        parameters: A tensor or several, whose `.grad` is clipped. Those without a gradient are passed over.
        max_norm: The bound of the norm, from 0; 0 makes every gradient 0.
        norm_type: 1, 2 or inf for the kernels, any other number for torch.
        error_if_nonfinite: Whether a norm that is not finite raises an error, before any gradient changes.
        foreach: Ignored; torch has this argument.
        per_tensor: Whether each gradient is clipped by a norm of its own.
        return_coefficient: Whether the factor is returned, too.
        process_group: The group of ranks that hold other parameters or shards, as an optimizer of altgrad.optim takes it.

    Returns:
        The norm before clipping, a 0-dim float32 tensor on the gradients' device (float64 where a gradient is
        float64); with `per_tensor` a tensor with a norm for each gradient; with `return_coefficient` a pair of
        that and of what the gradients were multiplied by, in the same shape.

    Raises:
        ValueError: `max_norm` is negative or NaN.
        RuntimeError: The norm is not finite, and `error_if_nonfinite` is True.

    Example:
        >>> norm = altgrad.ops.clip_grad_norm_(model.parameters(), 1.0)
    """
    max_norm, norm_type = bound_of("max_norm", max_norm), number_of("norm_type", norm_type)
    parameters = list_of(parameters)
    grads, ranks = grads_of(parameters), ranks_among(parameters, process_group)
    if ranks is not None:
        norm = clip_across(ranks, grads, max_norm, norm_type, error_if_nonfinite, per_tensor, norm_of)
    elif grads:
        clip = torch.ops.altgrad.clip_grads_by_norm_ if is_traced() else clip_by_norm
        norm = clip(grads, max_norm, norm_type, error_if_nonfinite, per_tensor)
    else:
        norm = norm_of_none(per_tensor)
    return (norm, coefficient_for(norm, max_norm)) if return_coefficient else norm


def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Bounds every element of every gradient of `parameters` in place, as torch.nn.utils.clip_grad_value_ does.

    Args:
        parameters: A tensor or several, whose `.grad` is clipped. Those without a gradient are passed over.
        clip_value: Elements are brought between -clip_value and clip_value; a number from 0.
        foreach: Ignored; torch has this argument.

    Raises:
        ValueError: `clip_value` is negative or NaN.

    Example:
        >>> altgrad.ops.clip_grad_value_(model.parameters(), 0.5)
    """
    clip_value = bound_of("clip_value", clip_value)
    grads = grads_of(parameters)
    if grads:
        clip = torch.ops.altgrad.clip_grads_by_value_ if is_traced() else clip_by_value
        clip(grads, clip_value)


def grad_norm(grads: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None, *,
              per_tensor: bool = False, process_group: "ProcessGroup | None" = None) -> torch.Tensor:
    """The norm of all tensors together, as torch.nn.utils.get_total_norm gives it; of DTensors as `clip_grad_norm_` has it.

    Args:
        grads: A tensor or several; None among them is passed over.
        norm_type: 1, 2 or inf for the kernels, any other number for torch.
        error_if_nonfinite: Whether a norm that is not finite raises an error.
        foreach: Ignored; torch has this argument.
        per_tensor: Whether each tensor gets a norm of its own.
        process_group: As `clip_grad_norm_` takes it.

    Returns:
        A 0-dim float32 tensor on the device of `grads` (float64 where one of them is float64), or with
        `per_tensor` a tensor with a norm for each of them.

    Raises:
        RuntimeError: The norm is not finite, and `error_if_nonfinite` is True.

    Example:
        >>> norm = altgrad.ops.grad_norm([p.grad for p in model.parameters()])
    """
    grads, norm_type = [grad for grad in list_of(grads) if grad is not None], number_of("norm_type", norm_type)
    ranks = ranks_among(grads, process_group)
    if not grads and ranks is None:
        return norm_of_none(per_tensor)
    norm = norm_across(ranks, grads, norm_type, per_tensor, norm_of) if ranks is not None else (torch.ops.altgrad.grad_norm if is_traced() else norm_of)(grads, norm_type, per_tensor)
    if error_if_nonfinite:
        check_finite(norm, norm_type)
    return norm


compute_global_grad_norm = grad_norm


# What the operators do.

@torch.no_grad()
def norm_of(grads, norm_type, per_tensor):
    kind = NORM_KINDS.get(norm_type)
    listed = tensor_list(grads, written=False) if kind else None
    if listed:
        return run(listed, (f"--norm={kind}", *_each(per_tensor)), {})["norm"]
    if are_fake(grads):
        return torch.ops.altgrad.grad_norm(grads, norm_type, per_tensor)
    return _fallback.norm_of(grads, norm_type, per_tensor)


@torch.no_grad()
def clip_by_norm(grads, max_norm, norm_type, error_if_nonfinite, per_tensor):
    kind = NORM_KINDS.get(norm_type)
    listed = tensor_list(grads, written=True) if kind else None
    if listed:
        check = None
        if error_if_nonfinite and per_tensor:
            check_finite(norm_of(grads, norm_type, True), norm_type)
        elif error_if_nonfinite:
            joined = torch.stack if kind == "linf" else sum
            check = lambda shares: check_finite(joined(shares), norm_type)
        flags = ("--clip", *_kind(kind), *_each(per_tensor), *["--exchange"] * bool(check))
        results = run(listed, flags, {"max_norm": single(max_norm)}, check=check)
        written(grads, listed)
        return results["norm"]
    if are_fake(grads):
        return torch.ops.altgrad.clip_grads_by_norm_(grads, max_norm, norm_type,
                                                     error_if_nonfinite, per_tensor)
    norm = _fallback.norm_of(grads, norm_type, per_tensor)
    if error_if_nonfinite:
        check_finite(norm, norm_type)
    _fallback.clip_norm_(grads, norm, max_norm)
    return norm


@torch.no_grad()
def clip_by_value(grads, clip_value):
    listed = tensor_list(grads, written=True)
    if listed:
        run(listed, ("--clip-value",), {"max_norm": single(clip_value)})
        written(grads, listed)
    elif are_fake(grads):
        torch.ops.altgrad.clip_grads_by_value_(grads, clip_value)
    else:
        _fallback.clip_value_(grads, clip_value)


def written(grads, listed):
    """Brings back what lay in dense copies, and tells autograd."""
    torch.autograd.graph.increment_version(grads)
    for grad, copy in listed.staged:
        grad.copy_(copy)


def _each(per_tensor):
    return ("--per-tensor",) * bool(per_tensor)


def _kind(kind):
    return () if kind == "l2" else (f"--norm={kind}",)
