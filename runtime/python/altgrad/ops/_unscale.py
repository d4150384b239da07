"""Gradients of a scaled loss: unscaled, checked and clipped in one go; the scale itself."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import torch

from .._binding.device_context import stays_on_device, unwritten
from .._binding.layout import local_of
from . import _fallback
from ._across_ranks import clip_unscaled, ranks_among
from ._plan_cache import run
from ._clip import _each, _kind, norm_of, written
from ._lists import NORM_KINDS, are_fake, as_tensor, bound_of, is_traced, list_of, norm_of_none, single
from ._tensor_list import tensor_list

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

Number: TypeAlias = float | torch.Tensor


@overload
def unscale(grads: torch.Tensor, loss_scale: Number, max_norm: float | None = None, *, norm_type: float = 2.0,
            per_tensor: bool = False, inplace: bool = False, process_group: "ProcessGroup | None" = None
            ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]: ...


@overload
def unscale(grads: Iterable[torch.Tensor | None], loss_scale: Number, max_norm: float | None = None, *,
            norm_type: float = 2.0, per_tensor: bool = False, inplace: bool = False,
            process_group: "ProcessGroup | None" = None) -> tuple[Sequence[torch.Tensor | None], torch.Tensor, torch.Tensor]: ...


def unscale(grads: Any, loss_scale: Number, max_norm: float | None = None, *, norm_type: float = 2.0,
            per_tensor: bool = False, inplace: bool = False, process_group: "ProcessGroup | None" = None
            ) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """Divides gradients by the loss scale and clips their norm, in the passes over memory that the norm needs.

    Each element is multiplied once, by coefficient / loss_scale in float32.

    Args:
        grads: A tensor or a list of tensors, in which None is passed over.
        loss_scale: What the loss was multiplied by: a number, or a tensor of one element, whose value is not
            read back from a GPU.
        max_norm: The bound of the norm of the unscaled gradients. 0, None and inf clip nothing.
        norm_type: 1, 2 or inf for the kernels, any other number for torch.
        per_tensor: Whether each tensor is clipped by a norm of its own.
        inplace: Whether the given tensors are written instead of new ones.
        process_group: The group of ranks that hold other parameters or shards, whose norm and `found_inf` are one; DTensors
            are of all ranks of their meshes without it.

    Returns:
        (clipped, norm, found_inf). `clipped` is a tensor where `grads` is one, else a list. `norm` is that of
        the unscaled gradients before clipping, a 0-dim float32 tensor, or with `per_tensor` a tensor with one
        for each tensor. `found_inf` is a 0-dim float32 tensor, 1.0 where a gradient is not finite, else 0.0.
        With a gradient that is not finite all are unscaled and none is clipped. A sum of squares that overflows
        gives an infinite norm and no `found_inf`.

    Raises:
        ValueError: `max_norm` is negative or NaN, or `loss_scale` is not positive and finite.
        TypeError: `loss_scale` is neither a number nor a tensor.

    Example:
        >>> grads = [p.grad for p in model.parameters()]
        >>> clipped, norm, found_inf = altgrad.ops.unscale(grads, loss_scale=65536.0, max_norm=1.0)
    """
    max_norm = bound_of("max_norm", max_norm or math.inf)
    grads = grads if isinstance(grads, (torch.Tensor, list, tuple)) else list(grads)
    given = [grad for grad in list_of(grads) if grad is not None]
    inverse, ranks = _inverse(loss_scale), ranks_among(given, process_group)
    if ranks is not None:
        unscaled = _unscaled(list(map(local_of, given)), inverse, inplace)
        clipped, norm, found = clip_unscaled(ranks, given, *unscaled, max_norm, float(norm_type), per_tensor, norm_of)
        return grads if inplace else _refilled(grads, clipped), norm, found
    if not given:
        return grads, norm_of_none(per_tensor), norm_of_none(False)
    if is_traced():
        ways = torch.ops.altgrad.unscale_clip, torch.ops.altgrad.unscale_clip_
        inverse = as_tensor(inverse, given)
    else:
        ways = unscale_clip, unscale_clip_
    if inplace:
        return grads, *ways[1](given, max_norm, inverse, float(norm_type), per_tensor)
    clipped, norm, found = ways[0](given, max_norm, inverse, float(norm_type), per_tensor)
    return _refilled(grads, clipped), norm, found


def _unscaled(parts, inverse, inplace):
    """(tensors times `inverse`, in place or as new ones, whether one is not finite)."""
    if not parts:
        return parts, norm_of_none(False)
    if inplace:
        return parts, unscale_clip_(parts, math.inf, inverse, 2.0, False)[1]
    return unscale_clip(parts, math.inf, inverse, 2.0, False)[::2]


def _refilled(grads, clipped):
    """A tensor where `grads` is one, else a list with None where `grads` has it."""
    if isinstance(grads, torch.Tensor):
        return clipped[0]
    clipped = iter(clipped)
    return [None if grad is None else next(clipped) for grad in grads]


def fused_grad_unscale_clip(grads: Any, max_norm: float | None, loss_scale: Number, *, norm_type: float = 2.0,
                            per_tensor: bool = False, inplace: bool = False, process_group: "ProcessGroup | None" = None
                            ) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """`unscale` by the name and with the order of arguments that boostr has for it; the arguments are those of `unscale`."""
    return unscale(grads, loss_scale, max_norm, norm_type=norm_type, per_tensor=per_tensor, inplace=inplace,
                   process_group=process_group)


def dynamic_loss_scale_update(found_inf: Number, loss_scale: Number, growth_tracker: Number,
                              growth_interval: int = 2000, backoff_factor: float = 0.5) -> tuple[Number, Number]:
    """The loss scale and the growth tracker of the next step.

    After a step with `found_inf` the scale is multiplied by `backoff_factor` and the tracker is 0. After any other
    step the tracker grows by 1; once it reaches `growth_interval`, the scale is doubled and the tracker is 0. A
    scale that would become infinite stays.

    Args:
        found_inf: Whether a gradient was not finite: a number or a 0-dim tensor, 0 for no.
        loss_scale: The scale of the last step, a number or a 0-dim tensor.
        growth_tracker: How many steps in a row had finite gradients, a whole number or a 0-dim tensor.
        growth_interval: After how many such steps the scale is doubled, from 1.
        backoff_factor: A number between 0 and 1.

    Returns:
        (loss_scale, growth_tracker). If any of the first three arguments is a tensor, both are new tensors on its
        device, which is not waited for; otherwise both are numbers.

    Raises:
        ValueError: `growth_interval` or `backoff_factor` is out of range.

    Example:
        >>> scale, tracker = altgrad.ops.dynamic_loss_scale_update(found_inf, scale, tracker)
    """
    if not growth_interval >= 1:
        raise ValueError(f"growth_interval is {growth_interval}; it has to be at least 1")
    if not 0.0 < backoff_factor < 1.0:
        raise ValueError(f"backoff_factor is {backoff_factor}; it has to lie between 0 and 1")
    if not any([isinstance(of, torch.Tensor) for of in (found_inf, loss_scale, growth_tracker)]):
        if found_inf:
            return loss_scale * backoff_factor, 0
        if growth_tracker + 1 < growth_interval:
            return loss_scale, growth_tracker + 1
        return loss_scale * 2.0 if math.isfinite(loss_scale * 2.0) else loss_scale, 0
    device = next(of.device for of in (loss_scale, found_inf, growth_tracker)
                  if isinstance(of, torch.Tensor))
    return torch.ops.altgrad.loss_scale_update(
        *[_on(device, number) for number in (found_inf, loss_scale, growth_tracker)],
        int(growth_interval), float(backoff_factor))


def _on(device, number):
    """A number as a tensor there, a float in float32; a tensor as it is."""
    return torch.as_tensor(number, dtype=torch.float32 if isinstance(number, float) else None, device=device)


def _inverse(scale):
    """1 / scale: a number, or a float32 tensor, which is not waited for."""
    if isinstance(scale, torch.Tensor):
        if scale.numel() != 1 or scale.is_complex():
            raise ValueError(f"loss_scale is a tensor of {scale.dtype} with shape {tuple(scale.shape)}; it has to "
                             "be one real number")
        if is_traced() or stays_on_device(scale):
            return scale.detach().double().reciprocal().float().view(())
        scale = scale.item()
    try:
        scale = float(scale)
    except (TypeError, ValueError):
        raise TypeError(f"loss_scale is {scale!r}, neither a number nor a tensor") from None
    if not 0.0 < scale < math.inf:
        raise ValueError(f"loss_scale is {scale}; it has to be positive and finite")
    return 1.0 / scale


# What the operators do.

@torch.no_grad()
def unscale_clip(grads, max_norm, inverse, norm_type, per_tensor):
    kind, copies = NORM_KINDS.get(norm_type), None
    if kind and not are_fake(grads):
        copies = [torch.empty_like(grad) for grad in grads]
        listed, places = tensor_list(grads, False, order=copies), tensor_list(copies, False)
    if copies and listed and places:
        for copy in copies:
            unwritten(copy)
        results = run(listed, _flags(kind, per_tensor), _given(max_norm, inverse),
                      copies={"copy": places})
        return copies, results["norm"], results["flag"]
    if are_fake(grads):
        return torch.ops.altgrad.unscale_clip(
            grads, max_norm, as_tensor(inverse, grads), norm_type, per_tensor)
    return _fallback.unscale_clip(grads, max_norm, inverse, norm_type, per_tensor)


@torch.no_grad()
def unscale_clip_(grads, max_norm, inverse, norm_type, per_tensor):
    kind = NORM_KINDS.get(norm_type)
    listed = tensor_list(grads, written=True) if kind else None
    if listed:
        results = run(listed, _flags(kind, per_tensor), _given(max_norm, inverse))
        written(grads, listed)
        return results["norm"], results["flag"]
    if are_fake(grads):
        return torch.ops.altgrad.unscale_clip_(
            grads, max_norm, as_tensor(inverse, grads), norm_type, per_tensor)
    clipped, norm, found = _fallback.unscale_clip(grads, max_norm, inverse, norm_type, per_tensor)
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
