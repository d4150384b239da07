// Which rule an optimizer runs, and how its step is stored.
#ifndef ALTGRAD_RULE_SPEC_H
#define ALTGRAD_RULE_SPEC_H

#include <ATen/core/Tensor.h>
#include <torch/arg.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace altgrad::optim {

// What all groups of an optimizer share. A member is set by calling it:
// RuleSpec("adamw").storage("m=bf16").max_grad_norm(1.0).
struct RuleSpec {
  using names_t = std::map<std::string, std::string>;
  using all_gather_t = std::function<std::vector<at::Tensor>(const at::Tensor &)>;

  // The name of a stock rule, of a rule on `rule_path` or of one in `text`; or the path of a
  // file. What contains a '/' or ends in .mlir is a path.
  RuleSpec(std::string name = "") : rule_(std::move(name)) {}
  RuleSpec(const char *name) : rule_(name) {}

  TORCH_ARG(std::string, rule);
  // A rule as text, in either form of templates/Language.md. `rule` may then be empty.
  TORCH_ARG(std::string, text);
  // The storage line (templates/Storage.md), such as "m=f32 master=f32". States that it does not name
  // are stored as their parameter is.
  TORCH_ARG(std::string, storage);
  // The seed of stochastic rounding ("m=bf16,stochastic"). Without it torch's generator gives
  // one. Files hold the seed and the count of draws.
  TORCH_ARG(std::optional<int64_t>, seed);
  // Folders of further rules, separated by colons.
  TORCH_ARG(std::string, rule_path);
  // Path of altgrad-opt. Empty: $ALTGRAD_OPT, or next to libaltgrad.so, or on PATH.
  TORCH_ARG(std::string, compiler);
  // Clips gradients by their global norm to this number, over parameters of all dtypes.
  TORCH_ARG(std::optional<double>, max_grad_norm);
  // Changes the meaning of max_grad_norm. "percentile": gradients are clipped to that percentile
  // of the last 100 norms; files hold these. "agc": each parameter's gradient is
  // clipped to that share of the parameter's norm. "agc-unit": the gradient of each output (a
  // slice of dimension 0) is clipped to that share of the output's norm.
  TORCH_ARG(std::string, clip);
  // Sums each gradient of 1 MB or more for the norm during backward, while it is in the
  // caches. The step then reads gradients once. This is for the CPU, from the second step on. A
  // gradient that is changed after backward is summed again if the change shows in its
  // version counter. Collectives and writes through pointers do not show there, so they
  // must not change a part of a gradient.
  TORCH_ARG(bool, norm_in_backward) = false;
  // Steps compute norms and counts of each parameter, which RuleOptimizer::statistics() gives.
  TORCH_ARG(bool, statistics) = false;
  // "torch": gradients, norm and coefficient are rounded to the gradients' dtype after
  // unscaling and after the clip, as torch's own functions do. Empty: each gradient is
  // multiplied once, in f32. Muon has also "kj" (KellerJordan), "dion", "moonlight", "emerging" (Emerging-Optimizers)
  // and "vibetensor", which decide what RuleOptions do not, where these differ from torch's: coefficients, length,
  // scale, flatten, plain, lr, decay and eps, and lr and eps of AdamW.
  TORCH_ARG(std::string, profile);
  // For rules that multiply: a parameter is a matrix or holds several, as the options "split=", "flatten=" and
  // "red_dim=" say. "units": these are units of one tensor, as Muon's; "rows": each is a tensor of its own, because its
  // rows have values of their own, as NorMuon's. Empty: a parameter is one matrix, and there are no such options.
  TORCH_ARG(std::string, matrices);
  // Ranks that take every step together, each with parameters of its own or with parts of some
  // (RuleOptimizer::set_shard): gives the same tensor of every rank, in one order that all have. max_grad_norm then is
  // for the norm over all ranks, and a GradScaler of altgrad::amp skips the step of all where one has a gradient that
  // is not finite. altgrad/distributed.h makes one of a process group. What it throws leaves step(), and the ranks may
  // then differ.
  TORCH_ARG(all_gather_t, all_gather);
  // Names of states in RuleParamState, by the rule's names, where they differ.
  TORCH_ARG(names_t, state_names);
};

} // namespace altgrad::optim

#endif // ALTGRAD_RULE_SPEC_H
