"""Norms and clips of gradients that several processes share: DTensors of any meshes, and plain ones beside them."""

import math

import torch

from .._binding.layout import PLAIN, is_dtensor, local_of
from .._binding.rank_sets import check_group
from .._binding.ranks import Ranks
from .._binding.shards import dtensor_of, is_elsewhere
from ._lists import check_finite, coefficient_for


def ranks_among(tensors, group):
    """The Ranks of tensors and a process group; None where all of them are this process's own."""
    if group is None and set(map(type, tensors)) <= PLAIN:
        return None
    meshes = [tensor.device_mesh for tensor in tensors if is_dtensor(tensor) and not is_elsewhere(tensor)]
    return Ranks(meshes, check_group(group)) if meshes or group is not None else None


@torch.no_grad()
def norm_across(ranks, grads, norm_type, per_tensor, norm_of):
    """The norm of all gradients of all ranks, or of each of them; `norm_of(tensors, norm_type, per_tensor)` is this rank's."""
    if not norm_type > 0.0:
        raise ValueError(f"norm_type is {norm_type}; norms over several ranks are of orders above 0, or inf")
    grads = list(map(_added_up, grads))
    shares, parts = list(map(ranks.share, grads)), list(map(local_of, grads))
    if per_tensor:
        return _norms_of_each(shares, norm_of(parts, norm_type, True), norm_type)
    tops = [norm_of(here, norm_type, False) if here else parts[0].new_zeros((), dtype=torch.float32) if parts else
            torch.zeros((), dtype=torch.float32, device="cpu")
            for top in range(max(1, len(ranks.tops)))
            for here in [[part for share, part in zip(shares, parts) if share.counted and share.top == top]]]
    dtype, tops = tops[0].dtype, [norm.double().to(tops[0].device) for norm in tops]
    if norm_type == math.inf:
        return ranks.worst(torch.stack(tops).amax()).to(dtype)
    return ranks.sum([norm ** norm_type for norm in tops]).pow(1.0 / norm_type).to(dtype)


def _norms_of_each(shares, norms, norm_type):
    wide = norms.double()
    for of in sorted({share.set for share in shares if share.set}, key=lambda ranks: (len(ranks.members), ranks.members)):
        mine = torch.tensor([place for place, share in enumerate(shares) if share.set is of], device=wide.device)
        counted = torch.tensor([share.in_set for share in shares if share.set is of], device=wide.device)
        if norm_type == math.inf:
            wide[mine] = of.worst(wide[mine])
        else:
            wide[mine] = of.sum((wide[mine] ** norm_type).where(counted, 0.0)).pow(1.0 / norm_type)
    return wide.to(norms.dtype)


@torch.no_grad()
def clip_across(ranks, grads, max_norm, norm_type, error_if_nonfinite, per_tensor, norm_of):
    """Clips gradients in place by the norm that it returns."""
    norm = norm_across(ranks, grads, norm_type, per_tensor, norm_of)
    if error_if_nonfinite:
        check_finite(norm, norm_type)
    _scale(grads, coefficient_for(norm, max_norm))
    return norm


@torch.no_grad()
def clip_unscaled(ranks, grads, parts, found, max_norm, norm_type, per_tensor, norm_of):
    """(clipped gradients, their norm before that, whether one of any rank is not finite): `parts` are what of `grads` lies
    here, unscaled, which are clipped in place, and `found` says whether one of them is not finite."""
    clipped = [dtensor_of(part, grad, grad.shape) if is_dtensor(grad) else part for part, grad in zip(parts, grads)]
    norm = norm_across(ranks, clipped, norm_type, per_tensor, norm_of)
    found = ranks.worst(found).to(found.dtype)
    coefficient = coefficient_for(norm, max_norm)
    _scale(clipped, torch.where(found.to(coefficient.device) != 0.0, torch.ones_like(coefficient), coefficient))
    return clipped, norm, found


def _added_up(grad):
    """A gradient whose parts of all ranks are elements of it, and no sums that are still to be added."""
    if is_dtensor(grad) and any([of.is_partial() for of in grad.placements]):
        from torch.distributed.tensor import Replicate
        return grad.redistribute(placements=[Replicate() if of.is_partial() else of for of in grad.placements])
    return grad


def _scale(grads, coefficient):
    parts = list(map(local_of, grads))
    for device in {part.device for part in parts}:
        places = [place for place, part in enumerate(parts) if part.device == device]
        factor, here = coefficient.to(device), [parts[place] for place in places]
        torch._foreach_mul_(here, factor if not factor.dim() else list(factor[places].unbind()))
    torch.autograd.graph.increment_version(grads)
