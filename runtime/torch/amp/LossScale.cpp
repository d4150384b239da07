// Keeps a loss scale where compiled steps find it.
#include "amp/LossScale.h"
#include "tensors/Errors.h"

#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>

using namespace altgrad::optim;
using at::Tensor;

static std::shared_ptr<const Program> programOf(const std::string &variant, bool isHost) {
  altgrad_core_request of{};
  of.loss_scaler = variant.c_str();
  of.host = isHost;
  return compileProgram(of, {});
}

LossScale::LossScale(const std::string &variant, const DeviceContext &context)
    : context(context), program(programOf(variant, context.isHost())) {
  // Whoever begins in inference mode updates the scale outside of it.
  c10::InferenceMode off(false);
  const c10::ArrayRef<Scalar> singles = program->singles;
  std::vector<int64_t> cells(singles.size());
  checkTable(altgrad_core_scaler(program->bundle.get(), cells.data(), &nowCount));
  auto as = at::TensorOptions().dtype(at::kByte).device(context.device());
  memory = at::zeros({8 * int64_t(singles.size() + 1)}, as);
  for (size_t i = 0; i < singles.size(); ++i)
    views[singles[i].key] = wordIn(memory, 8 * cells[i], typeOf(singles[i]));
}

const Tensor &LossScale::at(const std::string &key) const {
  auto found = views.find(key);
  ALTGRAD_CHECK(found != views.end(), "altgrad: a loss scaler has no '", key, "'");
  return found->second;
}

void LossScale::advance() {
  const int64_t bytes = 8 * nowCount;
  memory.narrow(0, 0, bytes).copy_(memory.narrow(0, bytes, bytes));
}

void LossScale::follow(const LossScale &other, bool forget) {
  const int64_t bytes = 8 * (forget ? nowCount : nowCount - 1);
  memory.narrow(0, 0, bytes).copy_(other.memory.narrow(0, 0, bytes), /*non_blocking=*/true);
}

void LossScale::computeNext(const std::vector<Tensor> &shares) {
  c10::OptionalDeviceGuard guard(context.device());
  const Tensor &found = at("found");
  for (const Tensor &share : shares)
    found.add_(share.to(found.device(), !found.is_cpu()));
  if (!plan) {
    plan.reset(context.makePlan(program->bundle.get()));
    check(altgrad_bind_tensors(plan.get(), nullptr, 0, 0));
    for (const Scalar &single : program->singles) {
      void *pointer = at(single.key).data_ptr();
      check(altgrad_bind_scalar(plan.get(), single.name, &pointer, 1));
    }
  }
  check(altgrad_run(plan.get(), nullptr, 0, 0, -1, context.stream()));
}
