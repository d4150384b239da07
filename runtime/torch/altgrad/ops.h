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

// With `per_tensor` each gradient has a norm of its own, and what is returned
// is a tensor of them.

/// torch::nn::utils::clip_grad_norm_ with all kinds of norms. Returns the norm
/// before clipping; gradients within the bound are not written. `coefficient`,
/// where it is given, becomes what gradients were multiplied by. Throws
/// c10::ValueError for a bound that is negative or NaN, and c10::Error for a
/// norm that is not finite where that is asked, before any gradient changes.
at::Tensor clip_grad_norm_(at::TensorList parameters, double max_norm,
                           double norm_type = 2.0,
                           bool error_if_nonfinite = false,
                           bool per_tensor = false,
                           at::Tensor *coefficient = nullptr);

/// torch::nn::utils::clip_grad_value_.
void clip_grad_value_(at::TensorList parameters, double clip_value);

/// The norm of all tensors together.
at::Tensor compute_global_grad_norm(at::TensorList grads,
                                    double norm_type = 2.0,
                                    bool error_if_nonfinite = false,
                                    bool per_tensor = false);

struct Unscaled {
  std::vector<at::Tensor> grads; // as many as were given
  at::Tensor norm, found_inf;    // of what is unscaled; 1 or 0
};

/// Divides by the loss scale and clips, with one product for each element.
/// Where a gradient is not finite, all are unscaled and none is clipped. A
/// bound of 0 or infinity clips nothing. `loss_scale` is a 0-dim tensor, or a
/// number that is positive and finite.
Unscaled fused_grad_unscale_clip(at::TensorList grads, double max_norm,
                                 double loss_scale, bool inplace = false,
                                 double norm_type = 2.0,
                                 bool per_tensor = false);
Unscaled fused_grad_unscale_clip(at::TensorList grads, double max_norm,
                                 const at::Tensor &loss_scale,
                                 bool inplace = false, double norm_type = 2.0,
                                 bool per_tensor = false);

template <typename Scale, typename Tracker> struct LossScaleUpdate {
  Scale loss_scale;
  Tracker growth_tracker;
};

/// Those of the next step. After a step that found something the scale is
/// multiplied by `backoff_factor` and the tracker is 0; otherwise the tracker
/// counts, and at `growth_interval` or beyond it the scale is doubled and the
/// tracker 0. A scale that would become infinite stays. Tensors give new ones
/// of their types, and nobody waits for them. Throws c10::ValueError for an
/// interval below 1 and a factor that is not between 0 and 1.
LossScaleUpdate<double, int64_t> dynamic_loss_scale_update(
    bool found_inf, double loss_scale, int64_t growth_tracker,
    int64_t growth_interval = 2000, double backoff_factor = 0.5);
LossScaleUpdate<at::Tensor, at::Tensor> dynamic_loss_scale_update(
    const at::Tensor &found_inf, const at::Tensor &loss_scale,
    const at::Tensor &growth_tracker, int64_t growth_interval = 2000,
    double backoff_factor = 0.5);

} // namespace altgrad::ops

#endif // ALTGRAD_OPS_H
