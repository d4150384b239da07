"""The operators of gradients, as torch.library has them: the same kernels, with what a tracer has to know of them."""

from typing import List, Sequence, Tuple  # noqa: UP035  torch reads these

import torch
from torch import Tensor
from torch.library import custom_op

from . import _clip, _unscale
from ._lists import norm_dtype


def _norm_like(grads, per_tensor):
    return grads[0].new_empty((len(grads),) * per_tensor, dtype=norm_dtype(grads))


@custom_op("altgrad::grad_norm", mutates_args=())
def grad_norm(grads: Sequence[Tensor], norm_type: float, per_tensor: bool) -> Tensor:
    return _clip.norm_of(grads, norm_type, per_tensor)


@grad_norm.register_fake
def _(grads, norm_type, per_tensor):
    return _norm_like(grads, per_tensor)


@custom_op("altgrad::clip_grads_by_norm_", mutates_args={"grads"})
def clip_grads_by_norm_(grads: Sequence[Tensor], max_norm: float, norm_type: float,
                        error_if_nonfinite: bool, per_tensor: bool) -> Tensor:
    return _clip.clip_by_norm(grads, max_norm, norm_type, error_if_nonfinite, per_tensor)


@clip_grads_by_norm_.register_fake
def _(grads, max_norm, norm_type, error_if_nonfinite, per_tensor):
    return _norm_like(grads, per_tensor)


@custom_op("altgrad::clip_grads_by_value_", mutates_args={"grads"})
def clip_grads_by_value_(grads: Sequence[Tensor], clip_value: float) -> None:
    _clip.clip_by_value(grads, clip_value)


@clip_grads_by_value_.register_fake
def _(grads, clip_value):
    pass


@custom_op("altgrad::unscale_clip", mutates_args=())
def unscale_clip(grads: Sequence[Tensor], max_norm: float, inverse: Tensor, norm_type: float,
                 per_tensor: bool) -> Tuple[List[Tensor], Tensor, Tensor]:  # noqa: UP006
    return _unscale.unscale_clip(grads, max_norm, inverse, norm_type, per_tensor)


@unscale_clip.register_fake
def _(grads, max_norm, inverse, norm_type, per_tensor):
    return ([torch.empty_like(grad) for grad in grads], _norm_like(grads, per_tensor),
            grads[0].new_empty((), dtype=torch.float32))


@custom_op("altgrad::unscale_clip_", mutates_args={"grads"})
def unscale_clip_(grads: Sequence[Tensor], max_norm: float, inverse: Tensor, norm_type: float,
                  per_tensor: bool) -> Tuple[Tensor, Tensor]:  # noqa: UP006
    return _unscale.unscale_clip_(grads, max_norm, inverse, norm_type, per_tensor)


@unscale_clip_.register_fake
def _(grads, max_norm, inverse, norm_type, per_tensor):
    return _norm_like(grads, per_tensor), grads[0].new_empty((), dtype=torch.float32)


@custom_op("altgrad::loss_scale_update", mutates_args=())
def loss_scale_update(found_inf: Tensor, loss_scale: Tensor, growth_tracker: Tensor,
                      growth_interval: int, backoff_factor: float) -> Tuple[Tensor, Tensor]:  # noqa: UP006
    return _unscale.loss_scale_update(found_inf, loss_scale, growth_tracker, growth_interval,
                                      backoff_factor)


@loss_scale_update.register_fake
def _(found_inf, loss_scale, growth_tracker, growth_interval, backoff_factor):
    return torch.empty_like(loss_scale), torch.empty_like(growth_tracker)
