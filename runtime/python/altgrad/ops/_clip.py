"""Norms of gradients, and clipping in place."""

import torch

from . import _by_torch
from ._bound import run
from ._lists import (KINDS, are_fake, bound_of, check_finite, coefficient_for, grads_of, is_traced,
                     list_of, single)
from ._look import look, raise_versions


def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None, *,
                    per_tensor=False, return_coefficient=False):
    """torch.nn.utils.clip_grad_norm_: clips the norm of all gradients of `parameters`, in place.

    Returns the norm before clipping, a 0-dim float32 tensor on the gradients' device, and
    with `return_coefficient` (norm, what gradients were multiplied by). `per_tensor` clips
    each gradient by a norm of its own and returns a tensor of them. Gradients of which no
    norm exceeds `max_norm` are not written. `foreach` is ignored.

    Raises ValueError for a negative `max_norm` or NaN, and with `error_if_nonfinite`
    RuntimeError for a norm that is not finite, before any gradient changes. What no kernel
    takes (`norm_type` other than 1, 2 and inf, float64, complex and sparse gradients, several
    devices) torch clips.
    """
    max_norm, norm_type = bound_of("max_norm", max_norm), float(norm_type)
    grads = grads_of(parameters)
    if grads:
        clip = torch.ops.altgrad.clip_grads_by_norm_ if is_traced() else clip_by_norm
        norm = clip(grads, max_norm, norm_type, error_if_nonfinite, per_tensor)
    else:
        norm = torch.zeros((0,) * per_tensor)
    return (norm, coefficient_for(norm, max_norm)) if return_coefficient else norm


def clip_grad_value_(parameters, clip_value, foreach=None):
    """torch.nn.utils.clip_grad_value_: bounds every element of every gradient, in place.

    Raises ValueError for a negative `clip_value` or NaN. `foreach` is ignored.
    """
    clip_value = bound_of("clip_value", clip_value)
    grads = grads_of(parameters)
    if grads:
        clip = torch.ops.altgrad.clip_grads_by_value_ if is_traced() else clip_by_value
        clip(grads, clip_value)


def compute_global_grad_norm(grads, norm_type=2.0, error_if_nonfinite=False, foreach=None, *,
                             per_tensor=False):
    """torch.nn.utils.get_total_norm: the norm of a tensor or of all tensors together.

    A 0-dim float32 tensor on their device, or with `per_tensor` a tensor of all their norms.
    None among `grads` is passed over. `foreach` is ignored.
    """
    grads, norm_type = [grad for grad in list_of(grads) if grad is not None], float(norm_type)
    if not grads:
        return torch.zeros((0,) * per_tensor)
    norm = (torch.ops.altgrad.grad_norm if is_traced() else norm_of)(grads, norm_type, per_tensor)
    if error_if_nonfinite:
        check_finite(norm, norm_type)
    return norm


# What the operators do.

@torch.no_grad()
def norm_of(grads, norm_type, per_tensor):
    kind = KINDS.get(norm_type)
    seen = look(grads, written=False) if kind else None
    if seen:
        return run(seen, (f"--norm={kind}", *_each(per_tensor)), {})["norm"]
    if are_fake(grads):
        return torch.ops.altgrad.grad_norm(grads, norm_type, per_tensor)
    return _by_torch.norm_of(grads, norm_type, per_tensor)


@torch.no_grad()
def clip_by_norm(grads, max_norm, norm_type, error_if_nonfinite, per_tensor):
    kind = KINDS.get(norm_type)
    seen = look(grads, written=True) if kind else None
    if seen:
        check = None
        if error_if_nonfinite and per_tensor:
            check_finite(norm_of(grads, norm_type, True), norm_type)
        elif error_if_nonfinite:
            joined = torch.stack if kind == "linf" else sum
            check = lambda shares: check_finite(joined(shares), norm_type)
        flags = ("--clip", *_kind(kind), *_each(per_tensor), *["--exchange"] * bool(check))
        results = run(seen, flags, {"max_norm": single(max_norm)}, check=check)
        written(grads, seen)
        return results["norm"]
    if are_fake(grads):
        return torch.ops.altgrad.clip_grads_by_norm_(grads, max_norm, norm_type,
                                                     error_if_nonfinite, per_tensor)
    norm = _by_torch.norm_of(grads, norm_type, per_tensor)
    if error_if_nonfinite:
        check_finite(norm, norm_type)
    _by_torch.clip_norm_(grads, norm, max_norm)
    return norm


@torch.no_grad()
def clip_by_value(grads, clip_value):
    seen = look(grads, written=True)
    if seen:
        run(seen, ("--clip-value",), {"max_norm": single(clip_value)})
        written(grads, seen)
    elif are_fake(grads):
        torch.ops.altgrad.clip_grads_by_value_(grads, clip_value)
    else:
        _by_torch.clip_value_(grads, clip_value)


def written(grads, seen):
    """Brings back what lay in dense copies, and tells autograd."""
    raise_versions(grads)
    for grad, copy in seen.staged:
        grad.copy_(copy)


def _each(per_tensor):
    return ("--per-tensor",) * bool(per_tensor)


def _kind(kind):
    return () if kind == "l2" else (f"--norm={kind}",)
