// Keeps a loss scale where compiled steps find it.
#include "amp/LossScale.h"

#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

// What becomes `next_scale` is called `grad_scale`.
static bool becomes(const Scalar &now, const Scalar &next) {
  std::string key = next.key.substr(sizeof "next_" - 1);
  return now.access == ALTGRAD_IN && now.key.size() >= key.size() &&
         now.key.compare(now.key.size() - key.size(), key.size(), key) == 0;
}

// What a step makes anew and `found`, then what it makes of them, then the
// rest, by what the step of scalars alone says. Null is a 0, which `found`
// becomes.
static std::vector<const Scalar *> layout(const std::vector<Scalar> &singles) {
  std::vector<const Scalar *> now, next, rest;
  for (const Scalar &made : singles)
    if (made.access == ALTGRAD_OUT) {
      auto from = std::find_if(
          singles.begin(), singles.end(),
          [&](const Scalar &single) { return becomes(single, made); });
      TORCH_CHECK(from != singles.end(), "altgrad: nothing becomes ", made.key);
      now.push_back(&*from);
      next.push_back(&made);
    }
  next.push_back(nullptr);
  for (const Scalar &single : singles)
    if (single.key == "found")
      now.push_back(&single);
    else if (std::find(now.begin(), now.end(), &single) == now.end() &&
             single.access != ALTGRAD_OUT)
      rest.push_back(&single);
  now.insert(now.end(), next.begin(), next.end());
  now.insert(now.end(), rest.begin(), rest.end());
  return now;
}

LossScale::LossScale(const std::string &variant, const Where &where)
    : where(where),
      program(compileProgram(std::string(targetsFor(where.isHost())) +
                             "\n--loss-scaler=" + variant)) {
  // Whoever begins in inference mode updates the scale outside of it.
  c10::InferenceMode off(false);
  std::vector<const Scalar *> order = layout(program->singles);
  nowCount = std::find(order.begin(), order.end(), nullptr) - order.begin();
  nowCount = (nowCount + 1) / 2;
  auto as = at::TensorOptions().dtype(at::kDouble).device(where.device());
  memory = at::zeros({int64_t(order.size())}, as);
  for (size_t i = 0; i < order.size(); ++i)
    if (order[i])
      views[order[i]->key] = memory.narrow(0, int64_t(i), 1)
                                 .view(order[i]->scalarType())
                                 .select(0, 0);
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

void LossScale::follow(const LossScale &other, bool forget) {
  int64_t count = forget ? nowCount : nowCount - 1;
  memory.narrow(0, 0, count)
      .copy_(other.memory.narrow(0, 0, count), /*non_blocking=*/true);
}

void LossScale::computeNext(const std::vector<Tensor> &shares) {
  c10::OptionalDeviceGuard guard(where.device());
  const Tensor &found = at("found");
  for (const Tensor &share : shares)
    found.add_(share.to(found.device(), !found.is_cpu()));
  if (!plan) {
    plan.reset(where.makePlan(program->bundle.get()));
    check(altgrad_bind_tensors(plan.get(), nullptr, 0, 0));
    for (const Scalar &single : program->singles) {
      void *pointer = at(single.key).data_ptr();
      check(altgrad_bind_scalar(plan.get(), single.name.c_str(), &pointer, 1));
    }
  }
  check(altgrad_run(plan.get(), nullptr, 0, 0, -1, where.stream()));
}
