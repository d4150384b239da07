// The optimizers: what LibTorch asks of them, over a Binding.
#include "altgrad/optim.h"
#include "optim/Binding.h"
#include "optim/OptionsOf.h"
#include "tensors/Errors.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

using namespace altgrad::optim;
using at::Tensor;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

// Throws unless the bound of a clip is one of its kind.
static void checkBound(const RuleSpec &spec) {
  const std::string &clip = spec.clip();
  ALTGRAD_CHECK(clip.empty() || clip == "percentile" || clip == "agc" || clip == "agc-unit", "altgrad: unknown clip '",
                clip,
                "'; there are 'percentile', 'agc' and 'agc-unit', and the norm "
                "of all gradients where none is given");
  const auto &bound = spec.max_grad_norm();
  ALTGRAD_CHECK(bound || clip.empty(), "altgrad: clip is '", clip, "' and max_grad_norm, its number, is not given");
  ALTGRAD_CHECK(!bound || (*bound >= 0 && (clip != "percentile" || *bound <= 100)), "Invalid max_grad_norm: ", *bound,
                clip.empty() ? "" : " of a ", clip, "; it is a number from 0", clip == "percentile" ? " to 100" : "");
}

RuleOptimizer::RuleOptimizer(const std::vector<OptimizerParamGroup> &groups, RuleSpec spec,
                             std::unique_ptr<OptimizerOptions> defaults)
    : Optimizer(groups, std::move(defaults)), binding(std::make_unique<Binding>(std::move(spec))) {
  checkBound(binding->spec);
}

RuleOptimizer::RuleOptimizer(const std::vector<OptimizerParamGroup> &groups, RuleSpec spec, RuleOptions defaults)
    : RuleOptimizer(groups, std::move(spec), std::make_unique<RuleOptions>(std::move(defaults))) {
  RuleOptimizer::prepare();
  complete(static_cast<RuleOptions &>(*defaults_));
  for (OptimizerParamGroup &group : param_groups_)
    complete(static_cast<RuleOptions &>(group.options()));
}

RuleOptimizer::RuleOptimizer(std::vector<Tensor> params, RuleSpec spec, RuleOptions defaults)
    : RuleOptimizer({OptimizerParamGroup(std::move(params))}, std::move(spec), std::move(defaults)) {}

RuleOptimizer::~RuleOptimizer() = default;

void RuleOptimizer::prepare() {
  readOptions();
  binding->prepare(param_groups_, optionsOf(*defaults_));
  const bool matrices = std::any_of(binding->matrixOptions.begin(), binding->matrixOptions.end(),
                                    [](const MatrixOptions &of) { return of.takesMatrices(); });
  if (matrices && binding->spec.max_grad_norm()) {
    TORCH_WARN_ONCE("altgrad: the update of a matrix does not depend on the length of its gradient, so max_grad_norm "
                    "only changes how much a step weighs in the momentum, and brings short gradients near eps; leave "
                    "it out, and clip the gradients of AdamW's groups alone, by altgrad::ops::clip_grad_norm_");
  }
}

void RuleOptimizer::add_param_group(const OptimizerParamGroup &param_group) {
  Optimizer::add_param_group(param_group);
  try {
    checkGroup(param_groups_.size() - 1);
  } catch (...) {
    param_groups_.pop_back();
    throw;
  }
}

// Refuses what the rule does not have, nor AdamW where it is beside it.
void RuleOptimizer::checkNames(const RuleOptions &options) const {
  std::set<std::string> known;
  auto add = [&](const std::string &words) {
    for (const Scalar &hyper : binding->hypers(MatrixOptions(words, binding->spec.matrices())))
      known.insert(hyper.key);
  };
  add(optionsOf(options));
  if (options.use_muon())
    add("rule=adamw");
  for (auto &[name, value] : options.hypers())
    ALTGRAD_CHECK(known.count(name), "altgrad: the rule has no hyper-parameter '", name,
                  "' (there are: ", c10::Join(", ", known), ")");
}

// Fills in what `options` leave open.
void RuleOptimizer::complete(RuleOptions &options) const {
  for (const Scalar &hyper : binding->hypers(MatrixOptions(optionsOf(options), binding->spec.matrices()))) {
    if (options.hypers().count(hyper.key))
      continue;
    const std::optional<double> found = hyperOf(options, hyper.key);
    ALTGRAD_CHECK(found || hyper.has_default, "altgrad: hyper-parameter '", hyper.key,
                  "' has no default and is not set");
    options.hyper(hyper.key, found ? *found : hyper.value);
  }
  checkNames(options);
  for (auto &[name, value] : options.hypers())
    ALTGRAD_CHECK(name == "lr" ? value >= 0 : !std::isnan(value), "Invalid ", name == "lr" ? "learning rate" : name,
                  ": ", value);
}

std::optional<double> RuleOptimizer::hyperOf(const OptimizerOptions &options, const std::string &name) const {
  auto find = [&](const OptimizerOptions &place) -> std::optional<double> {
    auto &hypers = as<RuleOptions>(place).hypers();
    auto found = hypers.find(name);
    return found == hypers.end() ? std::nullopt : std::optional(found->second);
  };
  auto own = find(options);
  own = own ? own : find(*defaults_);
  const bool isBeside = !binding->spec.matrices().empty() && as<RuleOptions>(options).options().count("rule=adamw");
  return own || !isBeside || name != "beta2" ? own : 0.95; // as AdamW beside Muon has it in Python
}

std::string RuleOptimizer::optionsOf(const OptimizerOptions &options) const {
  std::string words;
  for (auto &name : as<RuleOptions>(options).options())
    words += (words.empty() ? "" : ",") + name;
  return words;
}

void RuleOptimizer::addMark(const OptimizerOptions &options, std::vector<uint64_t> &words) const {
  static std::atomic<uint64_t> reads = 0;
  bool own = typeid(options) == typeid(RuleOptions);
  words.push_back(own ? static_cast<const RuleOptions &>(options).revision() : ++reads);
}

bool Binding::Marks::isSame(const Marks &other, size_t index) const {
  if (index >= ends.size() || index >= other.ends.size())
    return false;
  auto begin = [&](const Marks &marks) { return marks.words.begin() + (index ? marks.ends[index - 1] : 0); };
  return std::equal(begin(*this), words.begin() + ends[index], begin(other), other.words.begin() + other.ends[index]);
}

void RuleOptimizer::readOptions() {
  beginGroups();
  Binding::Marks marks;
  auto add = [&](const OptimizerOptions &options) {
    addMark(options, marks.words);
    marks.ends.push_back(marks.words.size());
  };
  add(*defaults_);
  for (const OptimizerParamGroup &group : param_groups_)
    add(group.options());
  bool all = !marks.isSame(binding->marks, 0);
  binding->options.resize(param_groups_.size());
  binding->matrixOptions.resize(param_groups_.size());
  binding->changed.resize(param_groups_.size(), true);
  for (size_t g = 0; g < param_groups_.size(); ++g)
    if (all || !marks.isSame(binding->marks, 1 + g)) {
      binding->options[g] = optionsOf(param_groups_[g].options());
      binding->matrixOptions[g] = MatrixOptions(binding->options[g], binding->spec.matrices());
      binding->changed[g] = true;
    }
  binding->marks = std::move(marks);
}

void RuleOptimizer::giveHypers(bool all) {
  std::vector<char> &changed = binding->changed;
  if (all)
    std::fill(changed.begin(), changed.end(), true);
  for (const Binding::DevicePlan &part : binding->plans) {
    std::vector<int64_t> cells;
    std::vector<double> numbers;
    std::vector<std::tuple<int64_t, size_t, const Tensor *>> lying;
    for (size_t i = 0; i < part.cells.size(); ++i) {
      const auto &[group, set] = part.cells[i];
      if (!changed[group])
        continue;
      cells.push_back(int64_t(i));
      const c10::ArrayRef<Scalar> hypers = entries(part.program->sets[size_t(set)].hypers);
      for (size_t h = 0; h < hypers.size(); ++h) {
        const auto own = binding->given.find(hypers[h].key);
        auto given = own != binding->given.end() ? std::optional(own->second)
                                                 : hyperOf(param_groups_[group].options(), hypers[h].key);
        ALTGRAD_CHECK(given || hypers[h].has_default, "altgrad: hyper-parameter '", hypers[h].key,
                      "' has no default and is not set");
        numbers.push_back(given ? *given : hypers[h].value);
        if (auto found = binding->tensors.find({group, hypers[h].key}); found != binding->tensors.end())
          lying.emplace_back(int64_t(i), h, &found->second);
      }
    }
    part.table->values.set(cells, numbers);
    for (auto [cell, hyper, tensor] : lying)
      part.table->values.take(cell, hyper, *tensor);
  }
  std::fill(changed.begin(), changed.end(), false);
}

Tensor RuleOptimizer::step(LossClosure closure) {
  Tensor loss;
  if (closure) {
    at::AutoGradMode enabled(true);
    loss = closure();
  }
  advance(nullptr);
  return loss;
}

void RuleOptimizer::advance(ScalerStep *scalerStep) {
  at::NoGradGuard disabled;
  auto lock = binding->hooks.lock();
  readOptions();
  for (size_t g = 0; g < param_groups_.size(); ++g)
    if (auto *own = dynamic_cast<const RuleOptions *>(binding->changed[g] ? &param_groups_[g].options() : nullptr))
      checkNames(*own);
  binding->scaler = scalerStep ? scalerStep->variant : "";
  const bool isNew = binding->take(param_groups_, state_);
  giveHypers(isNew);
  if (isNew)
    binding->warnOfLimits();
  if (scalerStep)
    binding->bindScaler(*scalerStep);
  binding->run();
}

void RuleOptimizer::countSkip() { binding->skip(); }

Tensor RuleOptimizer::skipped_steps() const { return binding->countOf("skipped_steps"); }

void RuleOptimizer::save(OutputArchive &archive) const {
  // A load finds new groups parted, and takes the words of a profile from the file.
  const_cast<RuleOptimizer *>(this)->beginGroups();
  torch::optim::serialize<RuleParamState, RuleOptions>(archive, *this);
  saveShared(archive);
}

void RuleOptimizer::load(InputArchive &archive) {
  loadWhole(archive, [&] { torch::optim::serialize<RuleParamState, RuleOptions>(archive, *this); });
}

// torch's own function loads group after group, up to one that does not fit.
void RuleOptimizer::loadWhole(InputArchive &archive, const std::function<void()> &load) {
  checkStorage(archive);
  beginGroups();
  std::vector<std::unique_ptr<OptimizerOptions>> options;
  for (const OptimizerParamGroup &group : param_groups_)
    options.push_back(group.options().clone());
  auto before = std::move(state_);
  state_.clear();
  try {
    load();
    const auto uppers = binding->transcodes ? binding->transcode(archive, param_groups_, state_) : Binding::Edits();
    loadShared(archive);
    for (auto &[param, upper] : uppers)
      param.copy_(upper);
  } catch (...) {
    state_ = std::move(before);
    for (size_t g = 0; g < options.size(); ++g)
      param_groups_[g].set_options(std::move(options[g]));
    throw;
  }
  // What the file lacks stays, as in torch.
  for (auto &[param, state] : before)
    if (!state_.count(param))
      state_[param] = std::move(state);
}

void RuleOptimizer::saveShared(OutputArchive &archive) const {
  binding->saveStorage(archive);
  binding->saveOwn(archive);
}

void RuleOptimizer::checkStorage(InputArchive &archive) const { binding->checkStorage(archive); }

void RuleOptimizer::loadShared(InputArchive &archive) { binding->loadOwn(archive); }

double RuleOptimizer::last_grad_norm() const {
  Tensor norm = grad_norm();
  return norm.defined() ? norm.item<double>() : 0;
}

Tensor RuleOptimizer::grad_norm() const {
  if (!binding->hasNorm() || binding->plans.empty())
    return Tensor();
  const Values &values = binding->plans[0].table->values;
  Tensor norm = values.tensor(ALTGRAD_ROLE_NORM);
  return norm.defined() ? norm.clone() : at::scalar_tensor(values.number(ALTGRAD_ROLE_NORM), at::kFloat);
}

std::map<std::string, Tensor> RuleOptimizer::statistics() const {
  ALTGRAD_CHECK(binding->spec.statistics(), "altgrad: this optimizer was made without RuleSpec::statistics");
  at::NoGradGuard disabled;
  std::map<std::string, Tensor> all;
  for (const char *key : {"steps", "clipped_steps"})
    if (binding->own.count(key))
      all[key] = binding->countOf(key);
  int64_t params = 0;
  for (const OptimizerParamGroup &group : param_groups_)
    params += int64_t(group.params().size());
  for (const Binding::DevicePlan &part : binding->plans)
    for (auto &[key, values] : part.table->statistics()) {
      Tensor &of = all[key];
      if (!of.defined())
        of = at::full({params}, std::numeric_limits<float>::quiet_NaN(), values.options());
      std::vector<int64_t> numbers;
      for (const Row &row : part.table->rows())
        numbers.push_back(row.place);
      // Rows of one parameter say it together.
      const Tensor places = at::tensor(numbers).to(of.device());
      const double power = key.find("norm") == std::string::npos ? 1 : 2;
      Tensor sums = at::zeros({params}, of.options().dtype(at::kDouble));
      sums.index_add_(0, places, values.to(of.device(), at::kDouble).pow(power));
      of.index_copy_(0, places, sums.pow(1 / power).index_select(0, places).to(at::kFloat));
    }
  return all;
}

void RuleOptimizer::set_tensor(size_t group, const std::string &hyper, Tensor value) {
  readOptions();
  ALTGRAD_CHECK(group < param_groups_.size(), "altgrad: there is no group ", group, " (there are ",
                param_groups_.size(), ")");
  const c10::ArrayRef<Scalar> hypers = binding->hypers(binding->matrixOptions[group]);
  ALTGRAD_CHECK(std::any_of(hypers.begin(), hypers.end(), [&](const Scalar &of) { return of.key == hyper; }),
                "altgrad: the rule of group ", group, " has no hyper-parameter '", hyper, "'");
  ALTGRAD_CHECK(!value.defined() || value.numel() == 1, "altgrad: '", hyper, "' is a tensor of ", value.numel(),
                " elements, expected 1");
  if (value.defined())
    binding->tensors[{group, hyper}] = value.detach();
  else
    binding->tensors.erase({group, hyper});
  binding->changed[group] = true;
}

void RuleOptimizer::set_shard(const Tensor &param, std::vector<int64_t> whole, int64_t offset) {
  binding->setShard(param, {std::move(whole), offset});
}

void RuleOptimizer::set_max_grad_norm(double norm) {
  ALTGRAD_CHECK(binding->spec.max_grad_norm(), "altgrad: this optimizer was made without max_grad_norm");
  checkBound(RuleSpec(binding->spec).max_grad_norm(norm));
  binding->spec.max_grad_norm(norm);
}
