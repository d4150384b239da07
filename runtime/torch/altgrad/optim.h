// Optimizers for LibTorch that run generated kernels: any rule, and AdamW.
//
//   altgrad::optim::AdamW optimizer(model->parameters(), AdamWOptions(1e-3));
//   altgrad::optim::RuleOptimizer lion(model->parameters(), "lion",
//                                      RuleOptions(1e-4).hyper("decay", 0.1));
//
// Parameters are dense CPU tensors in f32, bf16 or f16, gradients have their
// parameter's type. Everything is checked before anything is changed; errors
// are c10::Error.
#ifndef ALTGRAD_OPTIM_H
#define ALTGRAD_OPTIM_H

#include "altgrad/rule_spec.h"

#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace altgrad::amp {
class GradScaler;
}

namespace altgrad::optim {

class Binding;
struct Scaling;

// Hyper-parameters of a group by the rule's names. What a group does not set
// comes from the optimizer's defaults, then from the rule.
class RuleOptions
    : public torch::optim::OptimizerCloneableOptions<RuleOptions> {
public:
  RuleOptions() = default;
  RuleOptions(double lr) { hyper("lr", lr); }

  RuleOptions &hyper(const std::string &name, double value);
  double hyper(const std::string &name) const;
  // A compile-time option of the rule.
  RuleOptions &option(const std::string &name, bool on = true);
  const std::map<std::string, double> &hypers() const { return hypers_; }
  const std::set<std::string> &options() const { return options_; }
  // Another number after every change.
  uint64_t revision() const { return revision_; }

  void serialize(torch::serialize::InputArchive &archive) override;
  void serialize(torch::serialize::OutputArchive &archive) const override;
  double get_lr() const override;
  void set_lr(const double lr) override;

private:
  std::map<std::string, double> hypers_;
  std::set<std::string> options_;
  uint64_t revision_ = 0;
};

// State tensors of a parameter by name. The count of its steps, "step", is one
// of no dimension, and in a file a number, as torch's own optimizers have it.
class RuleParamState
    : public torch::optim::OptimizerCloneableParamState<RuleParamState> {
public:
  // Undefined if there is none.
  const at::Tensor &tensor(const std::string &name) const;
  RuleParamState &tensor(const std::string &name, at::Tensor value);
  // Says which of them is the count.
  RuleParamState &count(const std::string &name);
  const std::map<std::string, at::Tensor> &tensors() const { return tensors_; }
  // Another number after every change of any state in the process.
  static uint64_t edits();

  void serialize(torch::serialize::InputArchive &archive) override;
  void serialize(torch::serialize::OutputArchive &archive) const override;

private:
  // Counts objects that come and go, too.
  struct Edit {
    Edit();
    Edit(const Edit &);
    Edit &operator=(const Edit &);
    ~Edit();
  };
  std::map<std::string, at::Tensor> tensors_;
  std::string count_;
  Edit edit_;
};

class RuleOptimizer : public torch::optim::Optimizer {
public:
  RuleOptimizer(
      const std::vector<torch::optim::OptimizerParamGroup> &param_groups,
      RuleSpec spec, RuleOptions defaults = {});
  RuleOptimizer(std::vector<at::Tensor> params, RuleSpec spec,
                RuleOptions defaults = {});
  ~RuleOptimizer() override;

  // Parameters without a gradient are left alone, their step count too.
  at::Tensor step(LossClosure closure = nullptr) override;
  void save(torch::serialize::OutputArchive &archive) const override;
  void load(torch::serialize::InputArchive &archive) override;

  // The global norm of the last step's gradients, before clipping: a 0-dim f32
  // tensor on the parameters' device, where nobody has to wait for it;
  // undefined without max_grad_norm, for a norm of each parameter ("agc") and
  // before a step. The number waits for the device.
  at::Tensor grad_norm() const;
  double last_grad_norm() const;
  // How many steps a GradScaler of altgrad::amp skipped, a 0-dim i64 tensor on
  // the parameters' device.
  at::Tensor skipped_steps() const;
  // Only for an optimizer that was made with max_grad_norm.
  void set_max_grad_norm(double norm);

protected:
  // For a subclass whose groups have other options than RuleOptions; it calls
  // prepare() when it is constructed.
  RuleOptimizer(
      const std::vector<torch::optim::OptimizerParamGroup> &param_groups,
      RuleSpec spec, std::unique_ptr<torch::optim::OptimizerOptions> defaults);
  // Compiles what the groups need now, so that a wrong rule is told early.
  void prepare();

  // A group's hyper-parameter; nothing where the rule's default holds.
  virtual std::optional<double>
  hyperOf(const torch::optim::OptimizerOptions &options,
          const std::string &name) const;
  // A group's compile-time options, by commas.
  virtual std::string
  optionsOf(const torch::optim::OptimizerOptions &options) const;
  // What is of no parameter, the storage, the seed, the count of draws and the
  // norms of past steps, for a subclass that saves.
  void saveShared(torch::serialize::OutputArchive &archive) const;
  // Loads that, and by `load` states and options; everything or, where it
  // throws, nothing.
  void loadWhole(torch::serialize::InputArchive &archive,
                 const std::function<void()> &load);
  // Adds words that differ when any of the above does: only then is it asked.
  virtual void addMark(const torch::optim::OptimizerOptions &options,
                       std::vector<uint64_t> &words) const;

private:
  friend class altgrad::amp::GradScaler;
  void advance(Scaling *scaling);
  void countSkip();
  void checkStorage(torch::serialize::InputArchive &archive) const;
  void loadShared(torch::serialize::InputArchive &archive);
  void checkNames(const RuleOptions &options) const;
  void complete(RuleOptions &options) const;
  void readOptions();
  void giveHypers(bool all);
  std::unique_ptr<Binding> binding;
};

using AdamWOptions = torch::optim::AdamWOptions;

// In place of torch::optim::AdamW: the same options, the same files.
class AdamW : public RuleOptimizer {
public:
  explicit AdamW(
      const std::vector<torch::optim::OptimizerParamGroup> &param_groups,
      AdamWOptions defaults = {}, RuleSpec spec = "adamw");
  explicit AdamW(std::vector<at::Tensor> params, AdamWOptions defaults = {},
                 RuleSpec spec = "adamw");

  void save(torch::serialize::OutputArchive &archive) const override;
  void load(torch::serialize::InputArchive &archive) override;

protected:
  std::optional<double> hyperOf(const torch::optim::OptimizerOptions &options,
                                const std::string &name) const override;
  std::string
  optionsOf(const torch::optim::OptimizerOptions &options) const override;
  void addMark(const torch::optim::OptimizerOptions &options,
               std::vector<uint64_t> &words) const override;
};

} // namespace altgrad::optim

#endif // ALTGRAD_OPTIM_H
