// The scaler of LibTorch: which optimizers have stepped, and what they found.
#include "altgrad/amp.h"
#include "amp/LossScale.h"
#include "optim/Binding.h"
#include "tensors/Errors.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/serialize/archive.h>

#include <cmath>
#include <set>

using namespace altgrad::amp;
using altgrad::optim::DeviceContext;
using altgrad::optim::LossScale;
using altgrad::optim::RuleOptimizer;
using altgrad::optim::ScalerStep;
using at::Tensor;

// What has happened since the last update.
struct GradScaler::State {
  std::map<std::pair<int, int>, LossScale> numbers;     // by device
  LossScale *main = nullptr;                            // where the scale lives
  std::map<const void *, std::vector<Tensor>> unscaled; // found, by optimizer
  std::set<const void *> stepped;
  std::set<LossScale *> used; // whose next numbers a step has computed
  std::vector<Tensor> shares; // found by what no kernel has seen

  LossScale &on(at::Device device, const GradScalerOptions &options);
};

LossScale &GradScaler::State::on(at::Device device, const GradScalerOptions &options) {
  auto [it, isNew] = numbers.try_emplace({int(device.type()), std::max<int>(device.index(), 0)}, options.variant(),
                                         DeviceContext(device));
  LossScale &own = it->second;
  if (!isNew)
    return own;
  own.set("growth_factor", options.growth_factor());
  own.set("backoff_factor", options.backoff_factor());
  own.set("growth_interval", double(options.growth_interval()));
  own.set("hysteresis", double(options.hysteresis()));
  own.set("min_scale", options.min_scale());
  own.set("max_scale", options.max_scale());
  if (main) {
    own.follow(*main, /*forget=*/false);
    return own;
  }
  own.set("grad_scale", options.init_scale());
  own.set("hysteresis_tracker", double(options.hysteresis()));
  return own;
}

static void checkScale(double scale) {
  ALTGRAD_CHECK(scale > 0 && std::isfinite(scale), "altgrad: a loss scale is ", scale, ", not a finite number above 0");
}

GradScaler::GradScaler(GradScalerOptions given) : options(std::move(given)), state(std::make_unique<State>()) {
  checkScale(options.init_scale());
  ALTGRAD_CHECK(options.growth_factor() > 1, "The growth factor must be > 1.0.");
  ALTGRAD_CHECK(options.backoff_factor() < 1, "The backoff factor must be < 1.0.");
  ALTGRAD_CHECK(options.growth_interval() >= 1 && options.hysteresis() >= 1, "altgrad: growth_interval ",
                options.growth_interval(), " and hysteresis ", options.hysteresis(), " are at least 1");
  ALTGRAD_CHECK(0 <= options.min_scale() && std::isfinite(options.min_scale()) &&
                    options.min_scale() <= options.max_scale(),
                "altgrad: limits ", options.min_scale(), " and ", options.max_scale(),
                ": 0 <= min_scale <= max_scale, and min_scale is finite");
  ALTGRAD_CHECK(options.variant() == "torch" || options.variant() == "boostr", "altgrad: variant '", options.variant(),
                "' is not torch or boostr");
}

GradScaler::GradScaler(GradScaler &&) noexcept = default;
GradScaler &GradScaler::operator=(GradScaler &&) noexcept = default;
GradScaler::~GradScaler() = default;

void GradScaler::begin(at::Device device) {
  at::NoGradGuard none;
  if (!state->main)
    state->main = &state->on(device, options);
}

Tensor GradScaler::scale(const Tensor &loss) {
  if (!options.enabled())
    return loss;
  begin(loss.device());
  return loss * state->main->at("grad_scale").to(loss.device());
}

void GradScaler::unscale_(torch::optim::Optimizer &optimizer) {
  if (!options.enabled())
    return;
  at::NoGradGuard none;
  ALTGRAD_CHECK(state->main, "altgrad: unscale_() before scale()");
  ALTGRAD_CHECK(!state->stepped.count(&optimizer), "unscale_() is being called after step().");
  ALTGRAD_CHECK(!state->unscaled.count(&optimizer), "unscale_() has already been called on this optimizer since the "
                                                    "last update().");
  std::map<std::pair<int, int>, std::vector<Tensor>> kinds;
  for (auto &group : optimizer.param_groups())
    for (const Tensor &param : group.params())
      if (const Tensor &grad = param.grad(); grad.defined())
        kinds[{grad.device().index(), int(grad.scalar_type())}].push_back(grad);
  std::vector<Tensor> &found = state->unscaled[&optimizer];
  for (auto &[kind, grads] : kinds) {
    auto as = at::TensorOptions().device(grads[0].device()).dtype(at::kFloat);
    Tensor inverse = state->main->at("grad_scale").to(grads[0].device()).to(at::kDouble).reciprocal().to(at::kFloat);
    found.push_back(at::zeros({}, as));
    at::_amp_foreach_non_finite_check_and_unscale_(grads, found.back(), inverse);
  }
}

void GradScaler::step(torch::optim::Optimizer &optimizer) {
  if (!options.enabled()) {
    optimizer.step();
    return;
  }
  ALTGRAD_CHECK(state->main, "altgrad: step() before scale()");
  ALTGRAD_CHECK(!state->stepped.count(&optimizer), "step() has already been called since the last update().");
  auto *fused = dynamic_cast<RuleOptimizer *>(&optimizer);
  // What all ranks have found, where no kernel exchanges it: as kernels do, 1 where there is nothing.
  auto overRanks = [&](double found) {
    const Tensor &place = state->main->at("found");
    if (fused && fused->binding->spec.all_gather())
      for (const Tensor &fine : fused->binding->spec.all_gather()(
               at::full({1}, found == 0 ? 1.0 : 0.0, place.options().dtype(at::kDouble)))) {
        found += 1 - fine.item<double>();
        state->shares.push_back((1 - fine.select(0, 0)).to(place.options()));
      }
    return found;
  };
  if (fused && !state->unscaled.count(&optimizer)) {
    ScalerStep scalerStep{
        options.variant(), [&](at::Device device) -> LossScale & { return state->on(device, options); }, {}};
    fused->advance(&scalerStep);
    if (scalerStep.devices.empty() && overRanks(0) > 0) // no gradient is here
      fused->countSkip();
    for (at::Device device : scalerStep.devices)
      state->used.insert(&state->on(device, options));
  } else {
    if (!state->unscaled.count(&optimizer))
      unscale_(optimizer);
    double found = 0;
    for (const Tensor &share : state->unscaled[&optimizer]) {
      found += share.item<double>();
      state->shares.push_back(share);
    }
    found = overRanks(found);
    if (found == 0)
      optimizer.step();
    else if (fused)
      fused->countSkip();
  }
  state->stepped.insert(&optimizer);
}

void GradScaler::update() {
  if (!options.enabled())
    return;
  at::NoGradGuard none;
  ALTGRAD_CHECK(!state->stepped.empty() || !state->unscaled.empty(), "No inf checks were recorded prior to update.");
  for (auto &[optimizer, found] : state->unscaled)
    if (!state->stepped.count(optimizer))
      state->shares.insert(state->shares.end(), found.begin(), found.end());
  for (LossScale *numbers : state->used)
    if (numbers != state->main)
      state->shares.push_back(numbers->at("found"));
  if (!state->shares.empty() || !state->used.count(state->main))
    state->main->computeNext(state->shares);
  state->main->advance();
  finish();
}

void GradScaler::update(double scale) {
  if (!options.enabled())
    return;
  at::NoGradGuard none;
  checkScale(scale);
  ALTGRAD_CHECK(state->main, "altgrad: update() before scale()");
  state->main->set("grad_scale", scale);
  state->main->set("found", 0);
  finish();
}

// To begin another round.
void GradScaler::finish() {
  for (auto &[device, numbers] : state->numbers)
    if (&numbers != state->main)
      numbers.follow(*state->main, /*forget=*/true);
  state->unscaled.clear();
  state->stepped.clear();
  state->used.clear();
  state->shares.clear();
}

double GradScaler::get_scale() const {
  if (!options.enabled())
    return 1;
  return state->main ? state->main->at("grad_scale").item<double>() : options.init_scale();
}

int64_t GradScaler::get_growth_tracker() const {
  return state->main ? state->main->at("growth_tracker").item<int64_t>() : 0;
}

static const char *const saved[] = {"grad_scale", "growth_tracker", "hysteresis_tracker"};

void GradScaler::save(torch::serialize::OutputArchive &archive) const {
  if (!options.enabled())
    return;
  const double first[] = {options.init_scale(), 0, double(options.hysteresis())};
  for (size_t i = 0; i < std::size(saved); ++i)
    archive.write(saved[i], state->main ? state->main->at(saved[i]).item<double>() : first[i]);
}

void GradScaler::load(torch::serialize::InputArchive &archive) {
  if (!options.enabled())
    return;
  double numbers[std::size(saved)];
  for (size_t i = 0; i < std::size(saved); ++i) {
    c10::IValue value;
    archive.read(saved[i], value);
    numbers[i] = value.toDouble();
  }
  // Its own may have grown to infinity.
  if (options.variant() != "boostr" || !(numbers[0] > 0))
    checkScale(numbers[0]);
  for (size_t i = 1; i < std::size(saved); ++i)
    ALTGRAD_CHECK(numbers[i] >= 0 && numbers[i] < 0x1p31, "altgrad: ", saved[i], " of the file is ", numbers[i],
                  ", not a count");
  begin(at::kCPU);
  at::NoGradGuard none;
  for (size_t i = 0; i < std::size(saved); ++i)
    state->main->set(saved[i], numbers[i]);
  // What this round has found counts for the scale that was loaded.
  for (auto &[device, own] : state->numbers)
    if (&own != state->main)
      own.follow(*state->main, /*forget=*/false);
  state->used.erase(state->main);
}
