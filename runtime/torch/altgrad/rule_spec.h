// Which rule an optimizer runs.
#ifndef ALTGRAD_RULE_SPEC_H
#define ALTGRAD_RULE_SPEC_H

#include <torch/arg.h>

#include <map>
#include <optional>
#include <string>

namespace altgrad::optim {

// What the groups of an optimizer share: a rule, and how its step is stored.
struct RuleSpec {
  using names_t = std::map<std::string, std::string>;

  // The name of a rule that comes with altgrad, on the rule path or in `text`,
  // or the path of a file, with a '/' or ending in .mlir.
  RuleSpec(std::string name = "") : rule_(std::move(name)) {}
  RuleSpec(const char *name) : rule_(name) {}

  TORCH_ARG(std::string, rule);
  // A user's own rule, as MLIR text; its name may then stay empty.
  TORCH_ARG(std::string, text);
  // "m=f32 master=f32"; states that it does not name are stored as their
  // parameter is. "master=bf16+i16": a bf16 parameter is the upper half of its
  // master, the state "remainder" the lower one.
  TORCH_ARG(std::string, storage);
  // Of a storage with stochastic rounding ("m=bf16,stochastic"); nothing:
  // torch's generator gives one. A file has it, and how often was drawn.
  TORCH_ARG(std::optional<int64_t>, seed);
  // Folders of further rules, by colons.
  TORCH_ARG(std::string, rule_path);
  // Path of altgrad-opt; empty: $ALTGRAD_OPT, beside libaltgrad.so, on PATH.
  TORCH_ARG(std::string, compiler);
  // Clips gradients by their global norm, over parameters of all types.
  TORCH_ARG(std::optional<double>, max_grad_norm);
  // What max_grad_norm is the number of: "percentile" clips to that percentile
  // of the last 100 norms, which a file has; "agc" each parameter's gradient to
  // that share of the parameter's norm; "agc-unit" each output's, a part of
  // dimension 0, to that share of its own norm.
  TORCH_ARG(std::string, clip);
  // Sums each gradient of 1 MB or more for the norm while backward has it in
  // the caches, on the CPU and from the second step on: the step then reads
  // gradients once. One that is changed afterwards is summed again; what leaves
  // no trace in its version counter, as other ranks' collectives and writes
  // through pointers, must not change a part of it.
  TORCH_ARG(bool, norm_in_backward) = false;
  // "torch": gradients are rounded to their type after unscaling and after the
  // clip, norm and coefficient too, as torch's own functions do; empty: one
  // product.
  TORCH_ARG(std::string, profile);
  // From names of the rule to names in RuleParamState, where they differ.
  TORCH_ARG(names_t, state_names);
};

} // namespace altgrad::optim

#endif // ALTGRAD_RULE_SPEC_H
