// Keeps a loss scale where compiled steps find it.
#include "LossScale.h"

#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

using namespace altgrad::optim;
using at::Tensor;

// In this order, 8 bytes each. The first four become the second four when the
// scale is updated: so the last of those is always 0.
static const struct {
  const char *key;
  at::ScalarType type;
} cells[] = {{"grad_scale", at::kFloat},
             {"growth_tracker", at::kLong},
             {"hysteresis_tracker", at::kLong},
             {"found", at::kFloat},
             {"next_scale", at::kFloat},
             {"next_growth_tracker", at::kLong},
             {"next_hysteresis_tracker", at::kLong},
             {"zero", at::kLong},
             {"growth_factor", at::kDouble},
             {"backoff_factor", at::kDouble},
             {"min_scale", at::kDouble},
             {"max_scale", at::kDouble},
             {"growth_interval", at::kLong},
             {"hysteresis", at::kLong}};
static constexpr int64_t nowCount = 4;

LossScale::LossScale(std::string given, const Where &where)
    : variant(std::move(given)), where(where) {
  // Whoever begins in inference mode updates the scale outside of it.
  c10::InferenceMode off(false);
  auto as = at::TensorOptions().dtype(at::kDouble).device(where.device());
  memory = at::zeros({int64_t(std::size(cells))}, as);
  for (size_t i = 0; i < std::size(cells); ++i)
    views[cells[i].key] =
        memory.narrow(0, int64_t(i), 1).view(cells[i].type).select(0, 0);
}

const Tensor &LossScale::at(const std::string &key) const {
  auto found = views.find(key);
  TORCH_CHECK(found != views.end(), "altgrad: a loss scaler has no '", key,
              "'");
  return found->second;
}

void LossScale::advance() {
  memory.narrow(0, 0, nowCount).copy_(memory.narrow(0, nowCount, nowCount));
}

void LossScale::follow(const LossScale &other) {
  memory.narrow(0, 0, nowCount)
      .copy_(other.memory.narrow(0, 0, nowCount), /*non_blocking=*/true);
}

void LossScale::computeNext(const std::vector<Tensor> &shares) {
  c10::OptionalDeviceGuard guard(where.device());
  const Tensor &found = at("found");
  for (const Tensor &share : shares)
    found.add_(share.to(found.device(), !found.is_cpu()));
  if (!plan) {
    program = compileProgram(std::string(targetsFor(where.isHost())) +
                             "\n--loss-scaler=" + variant);
    plan.reset(where.makePlan(program->bundle.get()));
    check(altgrad_bind_tensors(plan.get(), nullptr, 0, 0));
    for (const Scalar &single : program->singles) {
      void *pointer = at(single.key).data_ptr();
      check(altgrad_bind_scalar(plan.get(), single.name.c_str(), &pointer, 1));
    }
  }
  check(altgrad_run(plan.get(), nullptr, 0, 0, -1, where.stream()));
}
