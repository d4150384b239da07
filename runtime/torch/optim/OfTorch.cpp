// The stock classes: what torch's options and the names of the Python package
// say to a rule.
#include "altgrad/optim.h"
#include "core/altgrad_classes.h"
#include "optim/OptionsOf.h"
#include "tensors/Errors.h"

#include <ATen/ops/ones.h>
#include <torch/optim/serialize.h>
#include <torch/serialize/archive.h>

#include <cstring>
#include <sstream>

using namespace altgrad::optim;
using at::Tensor;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;
using torch::serialize::InputArchive;
using torch::serialize::OutputArchive;

namespace {

// Each `visit` shows every number and every option that is decided when a rule
// is compiled, by the rule's names.
template <typename Options, typename See> void visitAdam(const Options &of, const See &see) {
  see("lr", of.lr());
  see("beta1", std::get<0>(of.betas()));
  see("beta2", std::get<1>(of.betas()));
  see("eps", of.eps());
  see("decay", of.weight_decay());
  see("amsgrad", of.amsgrad());
}
template <typename See> void visit(const AdamOptions &of, const See &see) { visitAdam(of, see); }
template <typename See> void visit(const AdamWOptions &of, const See &see) { visitAdam(of, see); }
template <typename See> void visit(const SGDOptions &of, const See &see) {
  see("lr", of.lr());
  see("momentum", of.momentum());
  see("dampening", of.dampening());
  see("decay", of.weight_decay());
  see("momentum_on", of.momentum() != 0);
  see("nesterov", of.nesterov());
}
template <typename See> void visit(const RMSpropOptions &of, const See &see) {
  see("lr", of.lr());
  see("alpha", of.alpha());
  see("eps", of.eps());
  see("momentum", of.momentum());
  see("decay", of.weight_decay());
  see("centered", of.centered());
  see("momentum_on", of.momentum() > 0);
}
template <typename See> void visit(const AdagradOptions &of, const See &see) {
  see("lr", of.lr());
  see("lr_decay", of.lr_decay());
  see("eps", of.eps());
  see("decay", of.weight_decay());
}

// What torch demands of numbers, in its words.
constexpr std::pair<const char *, const char *> demanded[] = {{"lr", "learning rate"},
                                                              {"eps", "epsilon value"},
                                                              {"beta1", "beta parameter at index 0"},
                                                              {"beta2", "beta parameter at index 1"},
                                                              {"decay", "weight_decay value"},
                                                              {"momentum", "momentum value"},
                                                              {"alpha", "alpha value"},
                                                              {"lr_decay", "lr_decay value"}};

template <typename Options> void checkOptions(const Options &options) {
  visit(options, [](const char *key, double value) {
    for (auto [name, words] : demanded)
      ALTGRAD_CHECK(strcmp(name, key) != 0 || (value >= 0 && (key[0] != 'b' || value < 1)), "Invalid ", words, ": ",
                    value);
  });
  if constexpr (std::is_same_v<Options, SGDOptions>)
    ALTGRAD_CHECK(!options.nesterov() || (options.momentum() > 0 && options.dampening() == 0),
                  "Nesterov momentum requires a momentum and zero dampening");
  if constexpr (std::is_same_v<Options, AdagradOptions>)
    ALTGRAD_CHECK(options.initial_accumulator_value() == 0, "altgrad: initial_accumulator_value is ",
                  options.initial_accumulator_value(),
                  "; sums begin with 0: leave it out, or take "
                  "torch::optim::Adagrad");
}

template <typename Options> constexpr const char *nameOf = "";
template <> constexpr const char *nameOf<AdagradOptions> = "Adagrad";
template <> constexpr const char *nameOf<AdamOptions> = "Adam";
template <> constexpr const char *nameOf<AdamWOptions> = "AdamW";
template <> constexpr const char *nameOf<RMSpropOptions> = "RMSprop";
template <> constexpr const char *nameOf<SGDOptions> = "SGD";

} // namespace

RuleSpec altgrad::optim::stock(const char *name, RuleSpec spec) {
  const altgrad_core_class &own = *altgrad_core_class_of(name);
  ALTGRAD_CHECK(spec.text().empty(), "altgrad: ", name, " runs the rule '", own.rule,
                "', and the RuleSpec has a text; take RuleOptimizer for it");
  ALTGRAD_CHECK(spec.rule().empty() || spec.rule() == own.rule, "altgrad: ", name, " runs the rule '", own.rule,
                "', and the RuleSpec names '", spec.rule(), "'; take RuleOptimizer for that, or leave the rule out");
  spec.rule(own.rule);
  if (spec.storage().empty())
    spec.storage(own.storage);
  if (spec.matrices().empty())
    spec.matrices(own.matrices);
  std::istringstream keys(own.keys);
  for (std::string pair; keys >> pair;)
    spec.state_names().emplace(pair.substr(0, pair.find('=')), pair.substr(pair.find('=') + 1));
  return spec;
}

template <typename Options>
OfTorch<Options>::OfTorch(const std::vector<OptimizerParamGroup> &groups, Options defaults, RuleSpec spec)
    : RuleOptimizer(groups, stock(nameOf<Options>, std::move(spec)), std::make_unique<Options>(defaults)) {
  checkOptions(defaults);
  for (const OptimizerParamGroup &group : param_groups_)
    checkOptions(as<Options>(group.options()));
  prepare();
}

template <typename Options>
OfTorch<Options>::OfTorch(std::vector<Tensor> params, Options defaults, RuleSpec spec)
    : OfTorch({OptimizerParamGroup(std::move(params))}, std::move(defaults), std::move(spec)) {}

template <typename Options>
std::optional<double> OfTorch<Options>::hyperOf(const OptimizerOptions &options, const std::string &name) const {
  std::optional<double> found;
  visit(as<Options>(options), [&](const char *key, auto value) {
    if (std::is_same_v<decltype(value), double> && name == key)
      found = value;
  });
  return found;
}

template <typename Options> std::string OfTorch<Options>::optionsOf(const OptimizerOptions &options) const {
  std::string words;
  visit(as<Options>(options), [&](const char *key, auto value) {
    if (std::is_same_v<decltype(value), bool> && value)
      words += (words.empty() ? "" : ",") + std::string(key);
  });
  return words;
}

template <typename Options>
void OfTorch<Options>::addMark(const OptimizerOptions &options, std::vector<uint64_t> &words) const {
  visit(as<Options>(options), [&](const char *, double value) {
    uint64_t word;
    std::memcpy(&word, &value, sizeof word);
    words.push_back(word);
  });
}

template <typename Options> void OfTorch<Options>::save(OutputArchive &archive) const {
  // torch asks every file for a count, whether or not a formula has one.
  for (auto &[param, state] : state_)
    if (auto &own = static_cast<RuleParamState &>(*state); own.count().empty())
      own.count("step");
  torch::optim::serialize<RuleParamState, Options>(archive, *this);
  saveShared(archive);
}

template <typename Options> void OfTorch<Options>::load(InputArchive &archive) {
  loadWhole(archive, [&] {
    torch::optim::serialize<RuleParamState, Options>(archive, *this);
    // torch's SGD stores none: the first step is the one without a momentum.
    for (auto &[param, state] : state_)
      if (auto &own = static_cast<RuleParamState &>(*state); !own.tensor("step").defined())
        own.count("step").tensor("step", at::ones({}, at::kLong));
  });
}

template class altgrad::optim::OfTorch<AdagradOptions>;
template class altgrad::optim::OfTorch<AdamOptions>;
template class altgrad::optim::OfTorch<AdamWOptions>;
template class altgrad::optim::OfTorch<RMSpropOptions>;
template class altgrad::optim::OfTorch<SGDOptions>;
