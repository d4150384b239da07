// What is done to gradients around an optimizer that is not altgrad's.
#ifndef ALTGRAD_OPS_H
#define ALTGRAD_OPS_H

#include <ATen/core/Tensor.h>

#include <vector>

namespace altgrad::ops {

// Lists of f32, bf16 and f16 on one device run as one compiled step; what else
// torch takes is done by torch's own functions. Undefined gradients are passed
// over. A norm is a 0-dim tensor on the gradients' device, of f32 but for wider
// gradients; nobody waits for it.

/// torch::nn::utils::clip_grad_norm_ with all kinds of norms. Returns the norm
/// before clipping; gradients within the bound are not written. Throws
/// c10::ValueError for a bound that is negative or NaN, and c10::Error for a
/// norm that is not finite where that is asked, before any gradient changes.
at::Tensor clip_grad_norm_(at::TensorList parameters, double max_norm,
                           double norm_type = 2.0,
                           bool error_if_nonfinite = false);

/// torch::nn::utils::clip_grad_value_.
void clip_grad_value_(at::TensorList parameters, double clip_value);

/// The norm of all tensors together.
at::Tensor compute_global_grad_norm(at::TensorList grads,
                                    double norm_type = 2.0);

struct Unscaled {
  std::vector<at::Tensor> grads; // as many as were given
  at::Tensor norm, found_inf;    // of what is unscaled; 1 or 0
};

/// Divides by the loss scale and clips, with one product for each element.
/// Where a gradient is not finite, all are unscaled and none is clipped. A
/// bound of 0 or infinity clips nothing. `loss_scale` is a 0-dim tensor, or a
/// number that is positive and finite.
Unscaled fused_grad_unscale_clip(at::TensorList grads, double max_norm,
                                 double loss_scale, bool inplace = false);
Unscaled fused_grad_unscale_clip(at::TensorList grads, double max_norm,
                                 const at::Tensor &loss_scale,
                                 bool inplace = false);

} // namespace altgrad::ops

#endif // ALTGRAD_OPS_H
