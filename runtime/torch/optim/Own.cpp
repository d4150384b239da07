// What an optimizer keeps of its steps beside states, where they count and note it: the seed of those that round
// stochastically and how often they have drawn, past norms, counts, and states of a rule that are one number for the
// step.
#include "optim/Binding.h"
#include "tensors/Errors.h"
#include "tensors/Lasting.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/serialize/archive.h>

#include <limits>

using namespace altgrad::optim;
using at::Tensor;

namespace {

constexpr char history[] = "norm_history", skipped[] = "skipped_steps", ofStep[] = "step_state_";

bool isStepState(const std::string &name) { return name.rfind(ofStep, 0) == 0; }

// What files have of it.
const struct {
  const char *name;
  c10::ScalarType type;
  int64_t numel;
} inFile[] = {
    {"seed", at::kLong, 1}, {"draws", at::kLong, 1}, {skipped, at::kLong, 1}, {history, at::kFloat, ALTGRAD_HISTORY}};

// As what a single of the step is kept; "" where it is not.
std::string nameOf(const Scalar &single) {
  switch (single.role) {
  case ALTGRAD_ROLE_HISTORY:
    return history;
  case ALTGRAD_ROLE_STATISTIC:
  case ALTGRAD_ROLE_SCALER: // whose program counts what it skips
    return is(single.key, "skipped") ? skipped : single.role == ALTGRAD_ROLE_STATISTIC ? single.key : "";
  case ALTGRAD_ROLE_STATE:
    return std::string(ofStep) + single.key;
  default:
    return single.role == ALTGRAD_ROLE_RANDOM ? single.key : "";
  }
}

} // namespace

Tensor Binding::beginOf(const std::string &name) const {
  if (name == history) {
    Tensor none = at::full({ALTGRAD_HISTORY}, std::numeric_limits<float>::quiet_NaN(), at::kFloat);
    none[0] = 0;
    return none;
  }
  if (name != "seed")
    return at::zeros({}, at::kLong);
  return spec.seed() ? at::scalar_tensor(*spec.seed(), at::kLong)
                     : at::randint(std::numeric_limits<int64_t>::max(), {}, at::kLong);
}

// The memory of the first part that has one is the optimizer's own. All plans step together and find the same.
void Binding::bindOwn() {
  Lasting lasting;
  std::set<std::string> placed;
  for (const DevicePlan &part : plans)
    for (size_t i = 0; i < part.program->singles.size(); ++i) {
      const Scalar &single = part.program->singles[i];
      const std::string name = nameOf(single);
      if (name.empty())
        continue;
      Tensor &kept = own[name];
      if (!kept.defined())
        kept = isStepState(name) ? at::scalar_tensor(single.value, typeOf(single)) : beginOf(name);
      // Sums over the step are of all parameters that this program steps.
      ALTGRAD_CHECK(!isStepState(name) || (plans.size() == 1 && part.program->stops.empty()),
                    "altgrad: the rule keeps '", single.key,
                    "' for the step as a whole, and other ranks or devices step a part of the parameters: give it all "
                    "parameters on one device of one process");
      const bool isSeed = name == "seed", isFirst = placed.insert(name).second;
      Tensor memory =
          kept.to(part.context.device(), typeOf(single), /*non_blocking=*/single.role == ALTGRAD_ROLE_RANDOM,
                  /*copy=*/!isFirst && !isSeed);
      if (isFirst && !isSeed)
        kept = memory;
      part.table->values.bind(i, memory);
    }
}

void Binding::bindScaler(ScalerStep &scalerStep) {
  for (const DevicePlan &part : plans) {
    LossScale &numbers = scalerStep.numbersOn(part.context.device());
    const c10::ArrayRef<Scalar> singles = part.program->singles;
    for (size_t i = 0; i < singles.size(); ++i)
      if (singles[i].role == ALTGRAD_ROLE_SCALE ||
          (singles[i].role == ALTGRAD_ROLE_SCALER && nameOf(singles[i]).empty()))
        part.table->values.bind(i, numbers.at(singles[i].key));
    scalerStep.devices.push_back(part.context.device());
  }
}

void Binding::skip() {
  Lasting lasting;
  Tensor &count = own[skipped];
  if (!count.defined())
    count = beginOf(skipped);
  count.add_(1);
}

Tensor Binding::countOf(const std::string &name) const {
  const auto found = own.find(name);
  return found == own.end() ? at::zeros({}, at::kLong) : found->second.clone();
}

void Binding::saveOwn(torch::serialize::OutputArchive &archive) const {
  for (const auto &of : inFile)
    if (const auto found = own.find(of.name); found != own.end())
      archive.write(of.name, found->second, /*is_buffer=*/true);
  for (const auto &[name, value] : own)
    if (isStepState(name))
      archive.write(name, value, /*is_buffer=*/true);
}

// A file without one of them says nothing of it; but norms of another run are none of this one's, so without any a new
// history begins.
void Binding::loadOwn(torch::serialize::InputArchive &archive) {
  Lasting lasting;
  std::map<std::string, Tensor> read;
  for (const auto &of : inFile) {
    Tensor given;
    if (!archive.try_read(of.name, given, /*is_buffer=*/true))
      continue;
    ALTGRAD_CHECK(given.scalar_type() == of.type && given.numel() == of.numel && given.dim() <= 1,
                  "altgrad: the file has a ", of.name, " of ", given.scalar_type(), " with sizes ", given.sizes(),
                  ", expected ", of.numel, " of ", of.type);
    read[of.name] = of.numel == 1 ? given.reshape(at::IntArrayRef()).clone() : given.contiguous().clone();
  }
  for (const std::string &name : archive.keys())
    if (Tensor given; isStepState(name) && archive.try_read(name, given, /*is_buffer=*/true)) {
      ALTGRAD_CHECK(given.numel() == 1, "altgrad: the file has a ", name, " with sizes ", given.sizes(),
                    ", expected one number");
      read[name] = given.reshape(at::IntArrayRef()).clone();
    }
  own.erase(history);
  for (auto &[name, tensor] : read)
    own[name] = std::move(tensor);
  bound = false;
}
