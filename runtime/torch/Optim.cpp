// The optimizers: what LibTorch asks of them, over a Binding.
#include "altgrad/optim.h"
#include "Binding.h"

#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

using namespace altgrad::optim;
using at::Tensor;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

//===-- Options --------------------------------------------------------------//

RuleOptions &RuleOptions::hyper(const std::string &name, double value) {
  hypers_[name] = value;
  return *this;
}

double RuleOptions::hyper(const std::string &name) const {
  auto found = hypers_.find(name);
  TORCH_CHECK(found != hypers_.end(), "altgrad: hyper-parameter '", name,
              "' is not set");
  return found->second;
}

RuleOptions &RuleOptions::option(const std::string &name, bool on) {
  if (on)
    options_.insert(name);
  else
    options_.erase(name);
  return *this;
}

double RuleOptions::get_lr() const { return hyper("lr"); }
void RuleOptions::set_lr(const double lr) { hyper("lr", lr); }

void RuleOptions::serialize(OutputArchive &archive) const {
  OutputArchive hypers(archive.compilation_unit());
  for (auto &[name, value] : hypers_)
    hypers.write(name, c10::IValue(value));
  archive.write("hypers", hypers);
  OutputArchive options(archive.compilation_unit());
  for (const std::string &name : options_)
    options.write(name, c10::IValue(true));
  archive.write("options", options);
}

void RuleOptions::serialize(InputArchive &archive) {
  InputArchive hypers, options;
  TORCH_CHECK(archive.try_read("hypers", hypers) &&
                  archive.try_read("options", options),
              "altgrad: the file holds another optimizer's options");
  hypers_.clear();
  options_.clear();
  c10::IValue value;
  for (const std::string &name : hypers.keys()) {
    hypers.read(name, value);
    hypers_[name] = value.toDouble();
  }
  for (const std::string &name : options.keys())
    options_.insert(name);
}

//===-- State ----------------------------------------------------------------//

const Tensor &RuleParamState::tensor(const std::string &name) const {
  static const Tensor none;
  auto found = tensors_.find(name);
  return found == tensors_.end() ? none : found->second;
}

RuleParamState &RuleParamState::tensor(const std::string &name, Tensor value) {
  tensors_[name] = std::move(value);
  return *this;
}

void RuleParamState::serialize(OutputArchive &archive) const {
  for (auto &[name, value] : tensors_)
    if (value.defined() && value.dim() == 0 && value.scalar_type() == at::kLong)
      archive.write(name, c10::IValue(value.item<int64_t>()));
    else if (value.defined())
      archive.write(name, c10::IValue(value));
}

void RuleParamState::serialize(InputArchive &archive) {
  tensors_.clear();
  c10::IValue value;
  for (const std::string &name : archive.keys()) {
    archive.read(name, value);
    if (value.isInt())
      tensors_[name] = at::scalar_tensor(value.toInt(), at::kLong);
    else if (value.isTensor())
      tensors_[name] = value.toTensor();
  }
}

//===-- Any rule -------------------------------------------------------------//

RuleOptimizer::RuleOptimizer(const std::vector<OptimizerParamGroup> &groups,
                             RuleSpec spec,
                             std::unique_ptr<OptimizerOptions> defaults)
    : Optimizer(groups, std::move(defaults)),
      binding(std::make_unique<Binding>(std::move(spec))) {
  const auto &norm = binding->spec.max_grad_norm();
  TORCH_CHECK(!norm || *norm >= 0, "Invalid max_grad_norm: ", *norm);
}

RuleOptimizer::RuleOptimizer(const std::vector<OptimizerParamGroup> &groups,
                             RuleSpec spec, RuleOptions defaults)
    : RuleOptimizer(groups, std::move(spec),
                    std::make_unique<RuleOptions>(std::move(defaults))) {
  RuleOptimizer::prepare();
  complete(static_cast<RuleOptions &>(*defaults_));
  for (OptimizerParamGroup &group : param_groups_)
    complete(static_cast<RuleOptions &>(group.options()));
}

RuleOptimizer::RuleOptimizer(std::vector<Tensor> params, RuleSpec spec,
                             RuleOptions defaults)
    : RuleOptimizer({OptimizerParamGroup(std::move(params))}, std::move(spec),
                    std::move(defaults)) {}

RuleOptimizer::~RuleOptimizer() = default;

void RuleOptimizer::prepare() {
  bool none = true;
  for (size_t g = 0; g < param_groups_.size(); ++g)
    for (size_t i = 0; i < param_groups_[g].params().size(); ++i) {
      const Tensor &param = param_groups_[g].params()[i];
      if (!param.requires_grad())
        continue;
      checkParameter(param, {g, i});
      binding->program(optionsOf(param_groups_[g].options()),
                       param.scalar_type());
      none = false;
    }
  if (none)
    binding->program(optionsOf(*defaults_), at::kFloat);
}

// Fills in what `options` leave open, and refuses what the rule does not have.
void RuleOptimizer::complete(RuleOptions &options) const {
  std::string names;
  for (const Hyper &hyper : binding->hypers()) {
    names += (names.empty() ? "" : ", ") + hyper.name;
    if (options.hypers().count(hyper.name))
      continue;
    auto &defaults = static_cast<const RuleOptions &>(*defaults_).hypers();
    auto found = defaults.find(hyper.name);
    if (found != defaults.end())
      options.hyper(hyper.name, found->second);
    else if (hyper.byDefault)
      options.hyper(hyper.name, *hyper.byDefault);
    else
      TORCH_CHECK(false, "altgrad: hyper-parameter '", hyper.name,
                  "' has no default and is not set");
  }
  for (auto &[name, value] : options.hypers()) {
    bool known = false;
    for (const Hyper &hyper : binding->hypers())
      known |= hyper.name == name;
    TORCH_CHECK(known, "altgrad: the rule has no hyper-parameter '", name,
                "' (there are: ", names, ")");
  }
}

std::optional<double> RuleOptimizer::hyperOf(const OptimizerOptions &options,
                                             const std::string &name) const {
  auto find = [&](const OptimizerOptions &place) -> std::optional<double> {
    auto &hypers = static_cast<const RuleOptions &>(place).hypers();
    auto found = hypers.find(name);
    return found == hypers.end() ? std::nullopt : std::optional(found->second);
  };
  auto own = find(options);
  return own ? own : find(*defaults_);
}

std::string RuleOptimizer::optionsOf(const OptimizerOptions &options) const {
  std::string words;
  for (auto &name : static_cast<const RuleOptions &>(options).options())
    words += (words.empty() ? "" : ",") + name;
  return words;
}

Tensor RuleOptimizer::step(LossClosure closure) {
  Tensor loss;
  if (closure) {
    at::AutoGradMode enabled(true);
    loss = closure();
  }
  at::NoGradGuard disabled;
  std::vector<std::string> options;
  for (const OptimizerParamGroup &group : param_groups_)
    options.push_back(optionsOf(group.options()));
  binding->take(param_groups_, state_, options);
  for (auto &plan : binding->plans) {
    double *value = plan->hypers.data();
    for (const OptimizerParamGroup &group : param_groups_)
      for (const Hyper &hyper : plan->program->hypers) {
        auto given = hyperOf(group.options(), hyper.name);
        TORCH_CHECK(given || hyper.byDefault, "altgrad: hyper-parameter '",
                    hyper.name, "' has no default and is not set");
        *value++ = given ? *given : *hyper.byDefault;
      }
  }
  binding->run();
  return loss;
}

void RuleOptimizer::save(OutputArchive &archive) const {
  torch::optim::serialize<RuleParamState, RuleOptions>(archive, *this);
}

void RuleOptimizer::load(InputArchive &archive) {
  forgetBinding();
  torch::optim::serialize<RuleParamState, RuleOptions>(archive, *this);
}

ska::flat_hash_map<void *, std::unique_ptr<torch::optim::OptimizerParamState>> &
RuleOptimizer::state() noexcept {
  forgetBinding();
  return Optimizer::state();
}

double RuleOptimizer::last_grad_norm() const { return binding->norm; }

void RuleOptimizer::set_max_grad_norm(double norm) {
  TORCH_CHECK(binding->spec.max_grad_norm(),
              "altgrad: this optimizer was made without max_grad_norm");
  TORCH_CHECK(norm >= 0, "Invalid max_grad_norm: ", norm);
  binding->spec.max_grad_norm(norm);
}

void RuleOptimizer::forgetBinding() noexcept { binding->forget(); }

//===-- AdamW ----------------------------------------------------------------//

namespace {

// The names that torch gives to the states; the user's own come first.
RuleSpec withTorchNames(RuleSpec spec) {
  for (auto &[name, key] : RuleSpec::names_t{
           {"m", "exp_avg"}, {"v", "exp_avg_sq"}, {"vmax", "max_exp_avg_sq"}})
    spec.state_names().emplace(name, key);
  return spec;
}

void checkOptions(const AdamWOptions &options) {
  auto [beta1, beta2] = options.betas();
  TORCH_CHECK(options.lr() >= 0, "Invalid learning rate: ", options.lr());
  TORCH_CHECK(options.eps() >= 0, "Invalid epsilon value: ", options.eps());
  TORCH_CHECK(0 <= beta1 && beta1 < 1,
              "Invalid beta parameter at index 0: ", beta1);
  TORCH_CHECK(0 <= beta2 && beta2 < 1,
              "Invalid beta parameter at index 1: ", beta2);
  TORCH_CHECK(options.weight_decay() >= 0,
              "Invalid weight_decay value: ", options.weight_decay());
}

} // namespace

AdamW::AdamW(const std::vector<OptimizerParamGroup> &groups,
             AdamWOptions defaults, RuleSpec spec)
    : RuleOptimizer(groups, withTorchNames(std::move(spec)),
                    std::make_unique<AdamWOptions>(defaults)) {
  checkOptions(defaults);
  for (const OptimizerParamGroup &group : param_groups_)
    checkOptions(static_cast<const AdamWOptions &>(group.options()));
  prepare();
}

AdamW::AdamW(std::vector<Tensor> params, AdamWOptions defaults, RuleSpec spec)
    : AdamW({OptimizerParamGroup(std::move(params))}, std::move(defaults),
            std::move(spec)) {}

std::optional<double> AdamW::hyperOf(const OptimizerOptions &given,
                                     const std::string &name) const {
  auto &options = static_cast<const AdamWOptions &>(given);
  if (name == "lr")
    return options.lr();
  if (name == "beta1")
    return std::get<0>(options.betas());
  if (name == "beta2")
    return std::get<1>(options.betas());
  if (name == "eps")
    return options.eps();
  if (name == "decay")
    return options.weight_decay();
  return std::nullopt;
}

std::string AdamW::optionsOf(const OptimizerOptions &options) const {
  return static_cast<const AdamWOptions &>(options).amsgrad() ? "amsgrad" : "";
}

void AdamW::save(OutputArchive &archive) const {
  torch::optim::serialize<RuleParamState, AdamWOptions>(archive, *this);
}

void AdamW::load(InputArchive &archive) {
  forgetBinding();
  torch::optim::serialize<RuleParamState, AdamWOptions>(archive, *this);
}
