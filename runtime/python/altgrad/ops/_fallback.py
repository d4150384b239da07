"""The fallback to torch's functions: other dtypes and norms, sparse tensors, several devices."""

import torch
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn.utils import get_total_norm

from .._binding.layout import check_extents
from ._lists import as_tensor, coefficient_for, norm_dtype


def norm_of(grads, norm_type, per_tensor):
    check_extents(grads)
    dtype = norm_dtype(grads)
    if per_tensor:
        each = [_total([grad], norm_type).to(grads[0].device, dtype) for grad in grads]
        return torch.stack(each)
    return _total(grads, norm_type).to(dtype)


def _total(grads, norm_type):
    # vmap knows no function of lists.
    foreach = False if any(map(is_functorch_wrapped_tensor, grads)) else None
    return get_total_norm([grad.coalesce()._values() if grad.is_sparse else grad for grad in grads],
                          norm_type, foreach=foreach)


def scale_(grads, factor):
    """Multiplies in place by one factor, or by one for each tensor."""
    factors = [factor] * len(grads) if factor.dim() == 0 else factor
    for grad, own in zip(grads, factors):
        grad.mul_(own.to(grad.device))


def clip_norm_(grads, norm, max_norm):
    scale_(grads, coefficient_for(norm, max_norm))


def clip_value_(grads, value):
    check_extents(grads)
    for grad in grads:
        grad.clamp_(min=-value, max=value)


def unscale_clip(grads, max_norm, inverse, norm_type, per_tensor):
    """(unscaled and clipped copies, norm, found_inf)."""
    check_extents(grads)
    inverse = as_tensor(inverse, grads)
    finite = [torch.isfinite(grad.coalesce()._values() if grad.is_sparse else grad).all()
              for grad in grads]
    finite = torch.stack([of.to(grads[0].device) for of in finite]).all()
    clipped = [(grad * inverse.to(grad.device)).to(grad.dtype) for grad in grads]
    norm = norm_of(clipped, norm_type, per_tensor)
    coefficient = coefficient_for(norm, max_norm)
    scale_(clipped, torch.where(finite, coefficient, torch.ones_like(coefficient)))
    return clipped, norm, (~finite).float()
