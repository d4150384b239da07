// Norms and clipping of lists: kernels where there are some, torch's functions
// elsewhere.
#include "altgrad/ops.h"

#include "ops/GradientStep.h"
#include "tensors/Checks.h"
#include "tensors/DeviceContext.h"
#include "tensors/Errors.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

using namespace altgrad::optim;
using altgrad::ops::Unscaled;
using at::Tensor;

namespace {

using Tensors = std::vector<Tensor>;
constexpr double infinite = std::numeric_limits<double>::infinity();

Tensors gradsOf(at::TensorList parameters) {
  Tensors grads;
  for (const Tensor &param : parameters)
    if (param.grad().defined())
      grads.push_back(param.grad());
  return grads;
}

Tensors definedOf(at::TensorList tensors) {
  Tensors defined;
  for (const Tensor &tensor : tensors)
    if (tensor.defined())
      defined.push_back(tensor);
  return defined;
}

void checkBound(const char *name, double bound) {
  ALTGRAD_CHECK_VALUE(bound >= 0, name, " is ", bound, "; a bound is at least 0");
}

// altgrad-opt's word; null for a norm that only torch has.
const char *wordOf(double normType) {
  return normType == 1 ? "l1" : normType == 2 ? "l2" : normType == infinite ? "linf" : nullptr;
}

std::string flagsFor(std::string flags, bool perTensor) { return perTensor ? flags + "\n--per-tensor" : flags; }

std::string clipping(double normType, bool perTensor) {
  std::string flags = "--clip";
  if (normType != 2)
    flags += std::string("\n--norm=") + wordOf(normType);
  return flagsFor(flags, perTensor);
}

// The norm of no gradients.
Tensor nothing(bool perTensor) {
  return perTensor ? at::zeros({0}, at::dtype(at::kFloat)) : at::zeros({}, at::dtype(at::kFloat));
}

// Nothing where torch has to do it: a kernel takes other tensors, or is not
// `wanted`.
std::optional<CheckedList> listOf(const Tensors &tensors, bool written, bool wanted = true) {
  std::vector<const Tensor *> handles;
  for (const Tensor &tensor : tensors)
    handles.push_back(&tensor);
  std::optional<CheckedList> listed;
  if (wanted)
    listed = listTensors(handles, written);
  // torch would write beyond a storage, too.
  for (const Tensor &tensor : tensors)
    if (!listed && tensor.layout() == at::kStrided && !tensor._is_zerotensor())
      checkExtent(tensor);
  return listed;
}

// The nearest f32: a conversion of more would be undefined.
double single(double number) {
  return std::abs(number) > std::numeric_limits<float>::max() ? std::copysign(infinite, number) : number;
}

void raiseVersions(const Tensors &tensors) {
  for (const Tensor &tensor : tensors)
    if (!tensor.is_inference())
      tensor.unsafeGetTensorImpl()->bump_version();
}

//===-- By torch ----------------------------------------------------------===//

Tensor normByTorch(const Tensors &grads, double normType, bool each) {
  Tensors norms;
  bool wide = false;
  for (const Tensor &grad : grads) {
    Tensor values = grad.is_sparse() ? grad.coalesce()._values() : grad;
    norms.push_back(at::linalg_vector_norm(values, normType));
    wide |= norms.back().scalar_type() == at::kDouble;
  }
  for (Tensor &norm : norms)
    norm = norm.to(grads[0].device(), wide ? at::kDouble : at::kFloat);
  Tensor all = at::stack(norms);
  return each ? all : at::linalg_vector_norm(all, normType);
}

// By one factor, or by one for each.
void multiply(const Tensors &grads, const Tensor &factor) {
  for (size_t i = 0; i < grads.size(); ++i)
    grads[i].mul_((factor.dim() ? factor[int64_t(i)] : factor).to(grads[i].device()));
}

Tensor coefficientFor(const Tensor &norm, double maxNorm) {
  Tensor bound = at::full({}, maxNorm, norm.options().dtype(at::kDouble)).to(norm.dtype());
  return (bound / (norm + 1e-6)).clamp_max(1.0);
}

Tensor inverseOf(const Tensor &scale) {
  return scale.detach().to(at::kDouble).reciprocal().to(at::kFloat).view(at::IntArrayRef());
}

Unscaled unscaledByTorch(const Tensors &grads, double maxNorm, const Tensor &inverse, double normType, bool each) {
  Unscaled result;
  Tensor finite = at::full({}, true, grads[0].options().dtype(at::kBool).layout(at::kStrided));
  for (const Tensor &grad : grads) {
    Tensor values = grad.is_sparse() ? grad.coalesce()._values() : grad;
    finite = finite.logical_and(at::isfinite(values).all().to(finite.device()));
    result.grads.push_back((grad * inverse.to(grad.device())).to(grad.scalar_type()));
  }
  result.norm = normByTorch(result.grads, normType, each);
  Tensor factor = coefficientFor(result.norm, maxNorm);
  multiply(result.grads, at::where(finite, factor, at::ones_like(factor)));
  result.found_inf = finite.logical_not().to(at::kFloat);
  return result;
}

} // namespace

//===-- Interface ---------------------------------------------------------===//

Tensor altgrad::ops::compute_global_grad_norm(at::TensorList given, double normType, bool errorIfNonfinite,
                                              bool perTensor) {
  at::NoGradGuard none;
  Tensors grads = definedOf(given);
  if (grads.empty())
    return nothing(perTensor);
  const char *word = wordOf(normType);
  auto listed = listOf(grads, false, word);
  Tensor norm =
      listed ? GradientStep::of(*listed, grads[0].device(), flagsFor(std::string("--norm=") + word, perTensor), false)
                   .run(*listed)
                   .norm
             : normByTorch(grads, normType, perTensor);
  if (errorIfNonfinite)
    ALTGRAD_CHECK(at::isfinite(norm).all().item<bool>(), "The total norm of order ", normType,
                  " for gradients from `parameters` is non-finite, so it cannot "
                  "be clipped. To disable this error and scale the gradients by "
                  "the non-finite norm anyway, set `error_if_nonfinite=false`");
  return norm;
}

Tensor altgrad::ops::clip_grad_norm_(at::TensorList parameters, double maxNorm, double normType, bool errorIfNonfinite,
                                     bool perTensor, Tensor *coefficient) {
  checkBound("max_norm", maxNorm);
  at::NoGradGuard none;
  Tensors grads = gradsOf(parameters);
  Tensor norm = nothing(perTensor);
  if (errorIfNonfinite)
    compute_global_grad_norm(grads, normType, true, perTensor);
  const char *word = wordOf(normType);
  auto listed = listOf(grads, true, word);
  if (listed) {
    GradientStep &step = GradientStep::of(*listed, grads[0].device(), clipping(normType, perTensor), false);
    step.values().give(ALTGRAD_ROLE_MAX_NORM, single(maxNorm));
    raiseVersions(grads);
    norm = step.run(*listed).norm;
  } else if (!grads.empty()) {
    norm = normByTorch(grads, normType, perTensor);
    multiply(grads, coefficientFor(norm, maxNorm));
  }
  if (coefficient)
    *coefficient = coefficientFor(norm, maxNorm);
  return norm;
}

void altgrad::ops::clip_grad_value_(at::TensorList parameters, double value) {
  checkBound("clip_value", value);
  at::NoGradGuard none;
  Tensors grads = gradsOf(parameters);
  auto listed = listOf(grads, true);
  if (!listed) {
    for (Tensor &grad : grads)
      grad.clamp_(-value, value);
    return;
  }
  GradientStep &step = GradientStep::of(*listed, grads[0].device(), "--clip-value", false);
  step.values().give(ALTGRAD_ROLE_MAX_NORM, single(value));
  raiseVersions(grads);
  step.run(*listed);
}

Unscaled altgrad::ops::fused_grad_unscale_clip(at::TensorList grads, double maxNorm, double lossScale, bool inplace,
                                               double normType, bool perTensor) {
  ALTGRAD_CHECK_VALUE(lossScale > 0 && lossScale < infinite, "loss_scale is ", lossScale,
                      "; it is positive and finite");
  return fused_grad_unscale_clip(grads, maxNorm, at::full({}, lossScale, at::kDouble), inplace, normType, perTensor);
}

Unscaled altgrad::ops::fused_grad_unscale_clip(at::TensorList given, double maxNorm, const Tensor &lossScale,
                                               bool inplace, double normType, bool perTensor) {
  checkBound("max_norm", maxNorm);
  maxNorm = maxNorm == 0 ? infinite : maxNorm;
  at::NoGradGuard none;
  Tensors grads = definedOf(given);
  Unscaled result{given.vec(), nothing(perTensor), nothing(false)};
  if (grads.empty())
    return result;
  Tensor inverse = inverseOf(lossScale);
  Tensors copies;
  if (!inplace)
    for (const Tensor &grad : grads)
      copies.push_back(at::empty_like(grad));
  bool wanted = wordOf(normType);
  auto listed = listOf(grads, inplace, wanted), places = listOf(copies, false, wanted);
  if (listed && (inplace || places)) {
    for (const Tensor &copy : copies)
      unwritten(copy);
    GradientStep &step =
        GradientStep::of(*listed, grads[0].device(), clipping(normType, perTensor) + "\n--unscale", !inplace);
    step.values().give(ALTGRAD_ROLE_MAX_NORM, single(maxNorm));
    step.values().give(ALTGRAD_ROLE_INV_SCALE, inverse);
    if (inplace)
      raiseVersions(grads);
    GradientResults got = inplace ? step.run(*listed) : step.run(*listed, {{"copy", places->pointers}});
    result.norm = got.norm;
    result.found_inf = got.found;
  } else {
    Unscaled by = unscaledByTorch(grads, maxNorm, inverse, normType, perTensor);
    for (size_t i = 0; inplace && i < grads.size(); ++i)
      grads[i].copy_(by.grads[i]);
    copies = by.grads;
    result.norm = by.norm;
    result.found_inf = by.found_inf;
  }
  if (!inplace) {
    auto next = copies.begin();
    for (Tensor &grad : result.grads)
      if (grad.defined())
        grad = *next++;
  }
  return result;
}

//===-- The loss scale ----------------------------------------------------===//

static void checkSchedule(int64_t interval, double backoff) {
  ALTGRAD_CHECK_VALUE(interval >= 1, "growth_interval is ", interval, "; it is at least 1");
  ALTGRAD_CHECK_VALUE(backoff > 0 && backoff < 1, "backoff_factor is ", backoff, "; it lies between 0 and 1");
}

altgrad::ops::LossScaleUpdate<double, int64_t>
altgrad::ops::dynamic_loss_scale_update(bool found, double scale, int64_t tracker, int64_t interval, double backoff) {
  checkSchedule(interval, backoff);
  if (found)
    return {scale * backoff, 0};
  if (tracker + 1 < interval)
    return {scale, tracker + 1};
  return {std::isfinite(scale * 2) ? scale * 2 : scale, 0};
}

// In f64, rounded once, as the compiler's update_loss_scale.
altgrad::ops::LossScaleUpdate<Tensor, Tensor>
altgrad::ops::dynamic_loss_scale_update(const Tensor &foundInf, const Tensor &scale, const Tensor &tracker,
                                        int64_t interval, double backoff) {
  checkSchedule(interval, backoff);
  at::NoGradGuard none;
  Tensor found = foundInf.to(scale.device()).ne(0);
  Tensor count = tracker.to(scale.device()).add(1);
  Tensor wide = scale.to(at::kDouble), full = count.ge(interval);
  Tensor grown = wide.mul(2).to(scale.scalar_type());
  Tensor lower = wide.mul(backoff).to(scale.scalar_type());
  Tensor next = at::where(full.logical_and(at::isfinite(grown)), grown, scale);
  return {at::where(found, lower, next), at::where(found.logical_or(full), at::zeros_like(count), count)};
}
