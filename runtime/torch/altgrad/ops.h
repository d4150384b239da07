// What is done to gradients around an optimizer that is not altgrad's.
#ifndef ALTGRAD_OPS_H
#define ALTGRAD_OPS_H

#include <ATen/core/Tensor.h>

#include <vector>

namespace altgrad::ops {

// A list of f32, bf16 and f16 tensors on one device is done by one compiled step. For
// everything else that torch takes, torch's own functions are called. Undefined
// gradients are left out. A norm is a 0-dim tensor on the gradients' device, in f32, or in the
// gradients' dtype where that is wider; the host does not wait for it.
//
// With `per_tensor` each gradient has a norm of its own, and the result has one element for
// each gradient.

/// Like torch::nn::utils::clip_grad_norm_. `norm_type` is 1, 2 or infinity for the compiled
/// step. Returns the norm before clipping. If the norm is within the bound, gradients are
/// not written. `coefficient`, if it is given, becomes the factor that gradients were
/// multiplied by. Throws c10::ValueError for a bound that is negative or NaN. Throws
/// c10::Error for a norm that is not finite if `error_if_nonfinite`. No gradient has changed then.
at::Tensor clip_grad_norm_(at::TensorList parameters, double max_norm, double norm_type = 2.0,
                           bool error_if_nonfinite = false, bool per_tensor = false, at::Tensor *coefficient = nullptr);

/// Like torch::nn::utils::clip_grad_value_: clamps every gradient element to +-clip_value.
void clip_grad_value_(at::TensorList parameters, double clip_value);

/// The norm of all tensors together; nothing is written.
at::Tensor compute_global_grad_norm(at::TensorList grads, double norm_type = 2.0, bool error_if_nonfinite = false,
                                    bool per_tensor = false);

struct Unscaled {
  std::vector<at::Tensor> grads; // one for each gradient that was given
  at::Tensor norm;               // of the unscaled gradients, before the clip
  at::Tensor found_inf;          // 1 if a gradient is not finite, else 0; 0-dim, f32
};

/// Divides gradients by the loss scale and clips them, with one product for each element. If a
/// gradient is not finite, all gradients are unscaled and none is clipped. A bound of 0 or
/// infinity clips nothing. `loss_scale` is a 0-dim tensor, or a positive finite number. With
/// `inplace` the results are written into `grads`, else into new tensors.
Unscaled fused_grad_unscale_clip(at::TensorList grads, double max_norm, double loss_scale, bool inplace = false,
                                 double norm_type = 2.0, bool per_tensor = false);
Unscaled fused_grad_unscale_clip(at::TensorList grads, double max_norm, const at::Tensor &loss_scale,
                                 bool inplace = false, double norm_type = 2.0, bool per_tensor = false);

template <typename Scale, typename Tracker> struct LossScaleUpdate {
  Scale loss_scale;
  Tracker growth_tracker;
};

/// The loss scale and growth tracker of the next step. If `found_inf`, the scale is multiplied
/// by `backoff_factor` and the tracker becomes 0. Otherwise the tracker counts; when it
/// reaches `growth_interval` or more, the scale is doubled and the tracker becomes 0. A scale
/// that would become infinite stays as it is. Tensors give new tensors of their dtypes; the
/// host does not wait for them. Throws c10::ValueError for an interval below 1 and for a
/// factor that is not between 0 and 1.
LossScaleUpdate<double, int64_t> dynamic_loss_scale_update(bool found_inf, double loss_scale, int64_t growth_tracker,
                                                           int64_t growth_interval = 2000, double backoff_factor = 0.5);
LossScaleUpdate<at::Tensor, at::Tensor>
dynamic_loss_scale_update(const at::Tensor &found_inf, const at::Tensor &loss_scale, const at::Tensor &growth_tracker,
                          int64_t growth_interval = 2000, double backoff_factor = 0.5);

} // namespace altgrad::ops

#endif // ALTGRAD_OPS_H
