"""Functions for gradients around any optimizer (norms, clipping, unscaling) and for number formats.

    norm = altgrad.clip_grad_norm_(model.parameters(), 1.0)
    clipped, norm, found_inf = altgrad.fused_grad_unscale_clip(grads, 1.0, loss_scale)

The kernels are those of a step without a rule. Norms have the same bits for any number
of threads and on a GPU. Every function is an operator of torch.library, too
(`torch.ops.altgrad`), and can be compiled and traced.
"""

from . import _registered  # noqa: F401
from ._blocks import quantize_blocks
from ._clip import clip_grad_norm_, clip_grad_value_, compute_global_grad_norm
from ._quantize import dequantize, quantize, quantize_codes
from ._scales import AmaxHistory, compute_scale
from ._unscale import dynamic_loss_scale_update, fused_grad_unscale_clip

__all__ = ["AmaxHistory", "clip_grad_norm_", "clip_grad_value_", "compute_global_grad_norm",
           "compute_scale", "dequantize", "dynamic_loss_scale_update", "fused_grad_unscale_clip", "quantize",
           "quantize_blocks", "quantize_codes"]
