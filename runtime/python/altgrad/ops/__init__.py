"""Functions of gradients around any optimizer: their norm, clips, and the division by a loss scale.

    norm = altgrad.ops.clip_grad_norm_(model.parameters(), 1.0)
    clipped, norm, found_inf = altgrad.ops.unscale(grads, loss_scale, max_norm=1.0)

`compute_global_grad_norm` is `grad_norm`, and `fused_grad_unscale_clip(grads, max_norm, loss_scale)` is `unscale`, by
the names that other libraries have for them.

The kernels are those of a step without a rule. Norms have the same bits for any number
of threads and on a GPU. Every function is an operator of torch.library, too
(`torch.ops.altgrad`), and can be compiled and traced.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .._warn import moved
from . import _registered  # noqa: F401
from ._clip import clip_grad_norm_, clip_grad_value_, grad_norm
from ._clip import compute_global_grad_norm as compute_global_grad_norm
from ._unscale import dynamic_loss_scale_update, unscale
from ._unscale import fused_grad_unscale_clip as fused_grad_unscale_clip

__all__ = ["clip_grad_norm_", "clip_grad_value_", "dynamic_loss_scale_update", "grad_norm", "unscale"]

if TYPE_CHECKING:
    from ..quant import AmaxHistory as AmaxHistory
    from ..quant import compute_scale as compute_scale
    from ..quant import dequantize as dequantize
    from ..quant import quantize as quantize
else:
    def __getattr__(name):
        if name in ("AmaxHistory", "compute_scale", "dequantize", "quantize"):  # quant is made of this package
            return getattr(import_module("altgrad.quant"), name)
        return moved(__name__, name, dict.fromkeys(("quantize_blocks", "quantize_codes"), "altgrad.quant"))

    def __dir__():
        return sorted(__all__)
