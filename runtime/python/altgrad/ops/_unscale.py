"""Gradients of a scaled loss: unscaled, checked and clipped in one go; the scale itself."""

import math

import torch

from .._binding.where import stays_on_device, unwritten
from . import _by_torch
from ._bound import run
from ._clip import _each, _kind, written
from ._lists import KINDS, are_fake, as_tensor, bound_of, is_traced, list_of, single
from ._look import look


def fused_grad_unscale_clip(grads, max_norm, loss_scale, *, norm_type=2.0, per_tensor=False,
                            inplace=False):
    """Divides gradients by the loss scale and clips their norm: (clipped, norm, found_inf).

    `grads` is a tensor or a list, in which None is passed over; `clipped` is the same, of
    new tensors or, with `inplace`, of those given. `norm` is that of the unscaled gradients, before
    clipping, a 0-dim float32 tensor, or with `per_tensor` one for each tensor. `found_inf` is a
    0-dim float32 tensor, 1.0 where a gradient is not finite: then all are unscaled and none is
    clipped. A sum of squares that overflows gives an infinite norm without `found_inf`.

    `loss_scale` is a number or a 0-dim tensor, which on a GPU nobody waits for. `max_norm` 0,
    None or inf clips nothing. Each element is multiplied once, by coefficient / loss_scale in
    float32. Raises ValueError for a negative bound, and a scale that is not positive and finite.
    """
    max_norm = bound_of("max_norm", max_norm or math.inf)
    grads = grads if isinstance(grads, (torch.Tensor, list, tuple)) else list(grads)
    given = [grad for grad in list_of(grads) if grad is not None]
    inverse = _inverse(loss_scale)
    if not given:
        return grads, torch.zeros((0,) * per_tensor), torch.zeros(())
    if is_traced():
        ways = torch.ops.altgrad.unscale_clip, torch.ops.altgrad.unscale_clip_
        inverse = as_tensor(inverse, given)
    else:
        ways = unscale_clip, unscale_clip_
    if inplace:
        return grads, *ways[1](given, max_norm, inverse, float(norm_type), per_tensor)
    clipped, norm, found = ways[0](given, max_norm, inverse, float(norm_type), per_tensor)
    if isinstance(grads, torch.Tensor):
        return clipped[0], norm, found
    clipped = iter(clipped)
    return [None if grad is None else next(clipped) for grad in grads], norm, found


def dynamic_loss_scale_update(found_inf, loss_scale, growth_tracker, growth_interval=2000,
                              backoff_factor=0.5):
    """(loss_scale, growth_tracker) of the next step.

    After a step with `found_inf` the scale is multiplied by `backoff_factor` and the tracker
    is 0; otherwise the tracker counts, and at `growth_interval` or beyond it the scale is doubled
    and the tracker 0. A scale that would become infinite stays. Numbers give numbers, tensors give
    new tensors of their dtype, and nobody waits for them.
    """
    if not growth_interval >= 1:
        raise ValueError(f"growth_interval is {growth_interval}; it is at least 1")
    if not 0.0 < backoff_factor < 1.0:
        raise ValueError(f"backoff_factor is {backoff_factor}; it lies between 0 and 1")
    if not any([isinstance(of, torch.Tensor) for of in (found_inf, loss_scale, growth_tracker)]):
        if found_inf:
            return loss_scale * backoff_factor, 0
        if growth_tracker + 1 < growth_interval:
            return loss_scale, growth_tracker + 1
        return loss_scale * 2.0 if math.isfinite(loss_scale * 2.0) else loss_scale, 0
    device = next(of.device for of in (loss_scale, found_inf, growth_tracker)
                  if isinstance(of, torch.Tensor))
    return torch.ops.altgrad.loss_scale_update(
        torch.as_tensor(found_inf, device=device), torch.as_tensor(loss_scale, device=device),
        torch.as_tensor(growth_tracker, device=device), int(growth_interval), float(backoff_factor))


def _inverse(scale):
    """1 / scale: a number, or a tensor of float32 that nobody waits for."""
    if isinstance(scale, torch.Tensor):
        if scale.numel() != 1 or scale.is_complex():
            raise ValueError(f"loss_scale is a tensor of {scale.dtype} with shape {tuple(scale.shape)}; it is one "
                             "real number")
        if is_traced() or stays_on_device(scale):
            return scale.detach().double().reciprocal().float().view(())
        scale = scale.item()
    try:
        scale = float(scale)
    except (TypeError, ValueError):
        raise TypeError(f"loss_scale is {scale!r}, neither a number nor a tensor") from None
    if not 0.0 < scale < math.inf:
        raise ValueError(f"loss_scale is {scale}; it is positive and finite")
    return 1.0 / scale


# What the operators do.

@torch.no_grad()
def unscale_clip(grads, max_norm, inverse, norm_type, per_tensor):
    kind, copies = KINDS.get(norm_type), None
    if kind and not are_fake(grads):
        copies = [torch.empty_like(grad) for grad in grads]
        seen, places = look(grads, False, order=copies), look(copies, False)
    if copies and seen and places:
        for copy in copies:
            unwritten(copy)
        results = run(seen, _flags(kind, per_tensor), _given(max_norm, inverse),
                      copies={"copy": places})
        return copies, results["norm"], results["flag"]
    if are_fake(grads):
        return torch.ops.altgrad.unscale_clip(
            grads, max_norm, as_tensor(inverse, grads), norm_type, per_tensor)
    return _by_torch.unscale_clip(grads, max_norm, inverse, norm_type, per_tensor)


@torch.no_grad()
def unscale_clip_(grads, max_norm, inverse, norm_type, per_tensor):
    kind = KINDS.get(norm_type)
    seen = look(grads, written=True) if kind else None
    if seen:
        results = run(seen, _flags(kind, per_tensor), _given(max_norm, inverse))
        written(grads, seen)
        return results["norm"], results["flag"]
    if are_fake(grads):
        return torch.ops.altgrad.unscale_clip_(
            grads, max_norm, as_tensor(inverse, grads), norm_type, per_tensor)
    clipped, norm, found = _by_torch.unscale_clip(grads, max_norm, inverse, norm_type, per_tensor)
    for grad, new in zip(grads, clipped):
        grad.copy_(new)
    return norm, found


def _flags(kind, per_tensor):
    return ("--clip", *_kind(kind), *_each(per_tensor), "--unscale")


def _given(max_norm, inverse):
    inverse = inverse if isinstance(inverse, torch.Tensor) else single(inverse)
    return {"max_norm": single(max_norm), "inv_scale": inverse}


@torch.no_grad()
def loss_scale_update(found_inf, scale, tracker, growth_interval, backoff_factor):
    # In float64, rounded once, as the compiler's update_loss_scale.
    found, wide = found_inf.to(scale.device) != 0, scale.double()
    count = tracker.to(scale.device) + 1
    full = count >= growth_interval
    grown, lower = (wide * 2.0).to(scale.dtype), (wide * backoff_factor).to(scale.dtype)
    new = torch.where(full & torch.isfinite(grown), grown, scale)
    return torch.where(found, lower, new), torch.where(found | full, torch.zeros_like(count), count)
