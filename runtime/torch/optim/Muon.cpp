// Whose Muon an optimizer's is, and which parameters of a group AdamW steps beside it.
#include "optim/Binding.h"
#include "optim/OptionsOf.h"
#include "tensors/Errors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

using namespace altgrad::optim;
using at::Tensor;
using torch::optim::OptimizerParamGroup;

altgrad_core_preset altgrad::optim::takePreset(RuleSpec &spec) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  altgrad_core_preset found{{none, none, none}, {none, none, none}, nullptr};
  if (spec.rule() != "muon" || spec.profile().empty())
    return found;
  checkTable(altgrad_core_find_preset(spec.profile().c_str(), &found));
  if (spec.profile() != "torch") // which rounds gradients, too
    spec.profile("");
  return found;
}

static bool saysOf(const RuleOptions &options, const std::string &word) {
  return std::any_of(options.options().begin(), options.options().end(),
                     [&](const std::string &own) { return kindOf(own) == kindOf(word); });
}

// The options of a profile that `options` do not decide, as `otherwise` has them, or as the profile.
static void addOptions(RuleOptions &options, const altgrad_core_preset &profile, const RuleOptions *otherwise) {
  if (!profile.options || saysOf(options, "rule"))
    return;
  std::istringstream words(profile.options);
  for (std::string word; std::getline(words, word, ',');) {
    if (saysOf(options, word))
      continue;
    if (!otherwise)
      options.option(word);
    else
      for (const std::string &common : otherwise->options())
        if (kindOf(common) == kindOf(word))
          options.option(common);
  }
}

static void addNumbers(RuleOptions &options, const altgrad_core_preset_numbers &of) {
  const std::pair<const char *, double> numbers[] = {{"lr", of.lr}, {"decay", of.decay}, {"eps", of.eps}};
  for (const auto &[name, value] : numbers)
    if (!std::isnan(value) && !options.hypers().count(name))
      options.hyper(name, value);
}

// Leaves out of a profile's numbers for AdamW what the options of all groups decide.
static void leaveOut(altgrad_core_preset_numbers &of, const RuleOptions &common) {
  const std::pair<const char *, double *> numbers[] = {{"lr", &of.lr}, {"decay", &of.decay}, {"eps", &of.eps}};
  for (const auto &[name, value] : numbers)
    if (common.hypers().count(name))
      *value = std::numeric_limits<double>::quiet_NaN();
}

// The options of the parameters that Muon takes, or of those that AdamW takes.
static RuleOptions sideOf(const RuleOptions &given, bool muon) {
  RuleOptions side;
  for (auto &[name, value] : given.hypers()) {
    const bool ofAdamW = name == "beta1" || name == "beta2";
    if (muon ? !ofAdamW : ofAdamW || name == "lr" || name == "decay" || name == "eps")
      side.hyper(name, value);
  }
  for (const std::string &word : given.options())
    if (muon)
      side.option(word);
  return muon ? side : side.option("rule=adamw");
}

// The rate of AdamW's group that a function makes: of Muon's it would take steps of many times the size. Nothing:
// Muon's.
static std::optional<double> rateApart(const RuleOptions &given, const RuleOptions &common, const Binding &binding) {
  if (given.use_muon() ? given.adamw_lr() : common.adamw_lr())
    return given.use_muon() ? given.adamw_lr() : common.adamw_lr();
  if (binding.profile.options)
    return std::isnan(binding.presetAdamWLr) ? std::nullopt : std::optional(binding.presetAdamWLr);
  const RuleOptions &says = saysOf(given, "scale") ? given : common;
  return says.options().count("scale=match_rms") ? std::nullopt : std::optional(1e-3);
}

// Makes two groups of one where a function says which of its parameters take Muon.
void RuleOptimizer::partGroup(size_t g) {
  auto &options = static_cast<RuleOptions &>(param_groups_[g].options());
  const RuleOptions::Takes takes = options.use_muon() ? options.use_muon() : as<RuleOptions>(*defaults_).use_muon();
  if (!takes)
    return;
  const bool ruled = saysOf(options, "rule");
  ALTGRAD_CHECK(!binding->spec.matrices().empty() && (!ruled || !options.use_muon()), "altgrad: group ", g,
                " has use_muon, which is for Muon and NorMuon, and for groups without an option rule=NAME");
  if (ruled)
    return;
  std::vector<Tensor> muon, adamw;
  for (const Tensor &param : param_groups_[g].params())
    (takes(param) ? muon : adamw).push_back(param);
  const RuleOptions given = options;
  RuleOptions adamwOptions = sideOf(given, false);
  const auto &common = as<RuleOptions>(*defaults_);
  auto rate = rateApart(given, common, *binding);
  auto own = given.hypers().find("lr"), all = common.hypers().find("lr");
  const bool says = own != given.hypers().end() && (all == common.hypers().end() || own->second != all->second);
  if (rate && (!muon.empty() || !says)) // what a parted group says is Muon's
    adamwOptions.hyper("lr", *rate);
  options = adamw.empty() || !muon.empty() ? sideOf(given, true) : adamwOptions;
  if (muon.empty() || adamw.empty())
    return;
  param_groups_[g].params() = std::move(muon);
  OptimizerParamGroup others(std::move(adamw), std::make_unique<RuleOptions>(adamwOptions));
  param_groups_.insert(param_groups_.begin() + std::ptrdiff_t(g) + 1, std::move(others));
}

// Checks the parameters of a group that has not begun, whose options may change until then, as it is now.
void RuleOptimizer::checkGroup(size_t g) const {
  const auto options = param_groups_[g].options().clone();
  const auto *common = dynamic_cast<const RuleOptions *>(defaults_.get());
  if (auto *own = dynamic_cast<RuleOptions *>(common ? options.get() : nullptr)) {
    checkNames(*own);
    if (own->use_muon() || common->use_muon())
      return; // a function says which of them take Muon when the group begins
    addOptions(*own, binding->profile, common);
  }
  const MatrixOptions matrixOptions(optionsOf(*options), binding->spec.matrices());
  for (size_t i = 0; i < param_groups_[g].params().size(); ++i)
    binding->checkTakes(matrixOptions, param_groups_[g].params()[i], {g, i});
}

void RuleOptimizer::beginGroups() {
  auto *common = dynamic_cast<RuleOptions *>(defaults_.get());
  if (!common || (binding->begun && binding->begun >= param_groups_.size()))
    return;
  if (!binding->begun)
    leaveOut(binding->profile.adamw, *common);
  addNumbers(*common, binding->profile.muon);
  addOptions(*common, binding->profile, nullptr);
  for (size_t &g = binding->begun; g < param_groups_.size(); ++g) {
    as<RuleOptions>(param_groups_[g].options());
    partGroup(g);
    auto &options = static_cast<RuleOptions &>(param_groups_[g].options());
    if (options.options().count("rule=adamw"))
      addNumbers(options, binding->profile.adamw);
    addOptions(options, binding->profile, common);
  }
}
