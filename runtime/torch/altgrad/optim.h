// Optimizers for LibTorch that run compiled kernels: every stock class, and any rule.
// runtime/torch/Guide.md has complete programs.
//
//   altgrad::optim::AdamW optimizer(model->parameters(), AdamWOptions(1e-3));
//   altgrad::optim::RuleOptimizer lion(model->parameters(), "lion",
//                                      RuleOptions(1e-4).hyper("decay", 0.1));
//
// Parameters are tensors of any shape and strides in f32, bf16 or f16, on the CPU or on NVIDIA
// GPUs; no two of their elements share memory. A gradient has its parameter's shape, dtype and device, and is dense or
// strided, not sparse. Everything is checked before anything is changed. Errors are
// c10::Error.
#ifndef ALTGRAD_OPTIM_H
#define ALTGRAD_OPTIM_H

#include "altgrad/rule_spec.h"

#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

namespace altgrad::amp {
class GradScaler;
}

namespace altgrad::optim {

class Binding;
struct ScalerStep;

// The hyper-parameters of a group, by the rule's names. A value that a group does not set
// comes from the optimizer's defaults, and otherwise from the rule.
class RuleOptions : public torch::optim::OptimizerCloneableOptions<RuleOptions> {
public:
  RuleOptions() = default;
  RuleOptions(double lr) { hyper("lr", lr); }

  RuleOptions &hyper(const std::string &name, double value);
  // Throws if the value is not set here.
  double hyper(const std::string &name) const;
  // Switches an option of the rule on or off, which is decided when the rule is compiled. A word such as "split=64"
  // takes the place of another "split=".
  RuleOptions &option(const std::string &name, bool on = true);
  // Of Muon and NorMuon: says of each parameter of a group, when the group is new, whether it is theirs. AdamW steps
  // the others, in a group behind it that has the option rule=adamw and, of these numbers, lr, beta1, beta2, eps and
  // decay. A group without a function takes that of the optimizer's options, unless it has an option rule=NAME. Groups
  // that are added later are parted in the next step, or when they are saved or loaded before. AdamW's rate is
  // `adamw_lr`, else that of the preset, else 1e-3; with the option scale=match_rms, whose rates are AdamW's, it is
  // Muon's.
  using Takes = std::function<bool(const at::Tensor &)>;
  RuleOptions &use_muon(Takes takes, std::optional<double> adamw_lr = {});
  const Takes &use_muon() const { return takes_; }
  std::optional<double> adamw_lr() const { return adamw_lr_; }
  const std::map<std::string, double> &hypers() const { return hypers_; }
  const std::set<std::string> &options() const { return options_; }
  // A number that changes with every change of these options.
  uint64_t revision() const { return revision_; }

  void serialize(torch::serialize::InputArchive &archive) override;
  void serialize(torch::serialize::OutputArchive &archive) const override;
  double get_lr() const override;
  void set_lr(const double lr) override;

private:
  std::map<std::string, double> hypers_;
  std::set<std::string> options_;
  Takes takes_;
  std::optional<double> adamw_lr_;
  uint64_t revision_ = 0;
};

// The state tensors of a parameter, by name. The step count "step" is a 0-dim tensor. In a
// file it is a number, as for torch's own optimizers.
class RuleParamState : public torch::optim::OptimizerCloneableParamState<RuleParamState> {
public:
  // The tensor with this name, or an undefined tensor.
  const at::Tensor &tensor(const std::string &name) const;
  RuleParamState &tensor(const std::string &name, at::Tensor value);
  // Which of the tensors is the step count. A file has a 0 where it is named and not there.
  RuleParamState &count(const std::string &name);
  const std::string &count() const { return count_; }
  const std::map<std::string, at::Tensor> &tensors() const { return tensors_; }
  // A number that changes with every change of any state in the process.
  static uint64_t edits();

  void serialize(torch::serialize::InputArchive &archive) override;
  void serialize(torch::serialize::OutputArchive &archive) const override;

private:
  // Construction and destruction count as changes, too.
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

// Runs one rule. The first step compiles what it needs, or takes it from the cache.
class RuleOptimizer : public torch::optim::Optimizer {
public:
  RuleOptimizer(const std::vector<torch::optim::OptimizerParamGroup> &param_groups, RuleSpec spec,
                RuleOptions defaults = {});
  RuleOptimizer(std::vector<at::Tensor> params, RuleSpec spec, RuleOptions defaults = {});
  ~RuleOptimizer() override;

  // Throws for options and parameters that the rule does not take, and then the group is not added.
  void add_param_group(const torch::optim::OptimizerParamGroup &param_group);

  // Updates all parameters that have a gradient. The others, and their step counts, stay as
  // they are. Returns what `closure` returns, or an undefined tensor.
  at::Tensor step(LossClosure closure = nullptr) override;
  // Runs an entry of the rule, a further step over the same parameters and states, such as Schedule-Free's "eval". If
  // it reads `gradients`, as SAM's climb does, it runs on the parameters that have one, and makes the states of the
  // rule first; else on those that have its states. Gradients are neither clipped nor unscaled. `hypers` are for this
  // call, by the rule's names; others are those of the groups, or the entry's defaults. Throws for an entry that the
  // rule has not.
  void enter(const std::string &entry, bool gradients = false, std::map<std::string, double> hypers = {});
  void save(torch::serialize::OutputArchive &archive) const override;
  void load(torch::serialize::InputArchive &archive) override;

  // The global norm of the last step's gradients, before clipping: a 0-dim f32 tensor on the
  // parameters' device. It is undefined before the first step, without max_grad_norm, and
  // where each parameter has a norm of its own ("agc").
  at::Tensor grad_norm() const;
  // The same as a number; this waits for the device.
  double last_grad_norm() const;
  // How many steps were skipped, by a GradScaler of altgrad::amp, or by a GPU where a product of Muon's matrices is not
  // finite and what it multiplied is: a 0-dim i64 tensor on the parameters' device.
  at::Tensor skipped_steps() const;
  // What the last step says of each parameter, by name: an f32 element for each, in the order of the groups, and NaN
  // for one that has not been stepped ("grad_norm", "param_norm", "update_norm", "nonfinite", and "lost" where elements
  // can stand still); and the 0-dim i64 counts "steps" and "clipped_steps", which begin with the optimizer. All on the
  // first device, and the host does not wait for it. Throws without RuleSpec::statistics.
  std::map<std::string, at::Tensor> statistics() const;
  // Has a hyper-parameter of a group, by the rule's name such as "lr", read in every step from a tensor of one element,
  // on the parameters' device or the CPU. The host does not wait for one on a GPU, and a captured graph reads what it
  // has then. The options keep their number, which files have, and which holds again after an undefined tensor. Throws
  // for a group or a name that there is not, and for several elements.
  void set_tensor(size_t group, const std::string &hyper, at::Tensor value);
  // Says that a parameter is a part of a tensor of sizes `whole`, row by row from its element `offset` on, of which
  // other ranks have other parts (RuleSpec::all_gather): its elements get the draws, and its gradient the share of the
  // norm, that they have in the whole. Ranks list the same tensors in one order, and have one RuleSpec::seed. States
  // are those of the part. Sums over the tensor, such as LAMB's, are of all its parts, which have gradients in the same
  // steps on all ranks. Before the first step. Throws where the part ends beyond the whole; the next step throws for a
  // rule or a storage that needs elements which other ranks have, such as a matrix or half a block.
  void set_shard(const at::Tensor &param, std::vector<int64_t> whole, int64_t offset);
  // Changes the bound. Throws for an optimizer that was made without max_grad_norm.
  void set_max_grad_norm(double norm);

protected:
  // For a subclass whose groups have options of another class than RuleOptions. Its constructor
  // calls prepare().
  RuleOptimizer(const std::vector<torch::optim::OptimizerParamGroup> &param_groups, RuleSpec spec,
                std::unique_ptr<torch::optim::OptimizerOptions> defaults);
  // Compiles what the groups need, so that a wrong rule is an error of the constructor.
  void prepare();

  // A group's hyper-parameter; nothing if the rule's default holds.
  virtual std::optional<double> hyperOf(const torch::optim::OptimizerOptions &options, const std::string &name) const;
  // The options of a group that are on, separated by commas.
  virtual std::string optionsOf(const torch::optim::OptimizerOptions &options) const;
  // Saves what belongs to no parameter: the storage line, the seed, the count of draws and the
  // norms of past steps. A subclass that saves calls it.
  void saveShared(torch::serialize::OutputArchive &archive) const;
  // Loads the same, and calls `load` for states and options. If something throws, nothing
  // is loaded.
  void loadWhole(torch::serialize::InputArchive &archive, const std::function<void()> &load);
  // Adds words that change whenever the results of hyperOf or optionsOf change; these are
  // called again only then.
  virtual void addMark(const torch::optim::OptimizerOptions &options, std::vector<uint64_t> &words) const;

private:
  friend class altgrad::amp::GradScaler;
  friend void transcode(torch::serialize::InputArchive &from, RuleOptimizer &to);
  void advance(ScalerStep *scalerStep);
  void countSkip();
  void checkStorage(torch::serialize::InputArchive &archive) const;
  void loadShared(torch::serialize::InputArchive &archive);
  void beginGroups();
  void partGroup(size_t g);
  void checkGroup(size_t g) const;
  void checkNames(const RuleOptions &options) const;
  void complete(RuleOptions &options) const;
  void readOptions();
  void giveHypers(bool all);
  std::unique_ptr<Binding> binding;
};

// Loads a file into an optimizer of another storage, which `load` refuses: numbers of states are decoded to f32 and
// rounded once, to nearest. A file of the class of torch::optim is one without a storage. A master in f32 becomes a
// remainder or is made of one, and a parameter is set to the upper half of a master that is split; a copy is made anew.
// Throws where the file has codes and no storage line, or a master for which the storage has no word; nothing has
// changed then.
void transcode(torch::serialize::InputArchive &from, RuleOptimizer &to);

using torch::optim::AdagradOptions;
using torch::optim::AdamOptions;
using torch::optim::AdamWOptions;
using torch::optim::RMSpropOptions;
using torch::optim::SGDOptions;

// Takes the place of the class of torch::optim with these options: it reads and writes the same
// files. `spec` may leave out the rule.
template <typename Options> class OfTorch : public RuleOptimizer {
public:
  explicit OfTorch(const std::vector<torch::optim::OptimizerParamGroup> &param_groups, Options defaults = {},
                   RuleSpec spec = {});
  explicit OfTorch(std::vector<at::Tensor> params, Options defaults = {}, RuleSpec spec = {});

  void save(torch::serialize::OutputArchive &archive) const override;
  void load(torch::serialize::InputArchive &archive) override;

protected:
  std::optional<double> hyperOf(const torch::optim::OptimizerOptions &options, const std::string &name) const override;
  std::string optionsOf(const torch::optim::OptimizerOptions &options) const override;
  void addMark(const torch::optim::OptimizerOptions &options, std::vector<uint64_t> &words) const override;
};

// Sums begin with 0: another initial_accumulator_value is refused.
using Adagrad = OfTorch<AdagradOptions>;
using Adam = OfTorch<AdamOptions>;
using AdamW = OfTorch<AdamWOptions>;
using RMSprop = OfTorch<RMSpropOptions>;
using SGD = OfTorch<SGDOptions>;

// Puts the rule, the storage and the names of states of a stock class where `spec` has none.
RuleSpec stock(const char *name, RuleSpec spec);

// A stock class of the Python package: (parameters or groups, options, RuleSpec).
#define ALTGRAD_STOCK(NAME, BASE, OPTIONS, FIRST, SECOND)                                                              \
  class NAME : public BASE {                                                                                           \
  public:                                                                                                              \
    explicit NAME(const std::vector<torch::optim::OptimizerParamGroup> &param_groups, OPTIONS defaults = {},           \
                  RuleSpec given = {})                                                                                 \
        : NAME(param_groups, stock(#NAME, std::move(given)), defaults, 0) {}                                           \
    explicit NAME(const std::vector<at::Tensor> &params, OPTIONS defaults = {}, RuleSpec given = {})                   \
        : NAME(params, stock(#NAME, std::move(given)), defaults, 0) {}                                                 \
                                                                                                                       \
  private:                                                                                                             \
    template <typename Params>                                                                                         \
    NAME(const Params &params, RuleSpec spec, OPTIONS defaults, int) : BASE(params, FIRST, SECOND) {}                  \
  }
// Options by the rule's names; states by the names that the Python classes give them.
#define ALTGRAD_OF_RULE(NAME) ALTGRAD_STOCK(NAME, RuleOptimizer, RuleOptions, spec, defaults)
// AdamW and Adam with narrow states.
#define ALTGRAD_NARROW(NAME, BASE, OPTIONS) ALTGRAD_STOCK(NAME, BASE, OPTIONS, defaults, spec)

ALTGRAD_OF_RULE(ADOPT);
ALTGRAD_OF_RULE(AdEMAMix);
ALTGRAD_OF_RULE(GridOptim);
ALTGRAD_OF_RULE(LAMB);
ALTGRAD_OF_RULE(Lion);
ALTGRAD_OF_RULE(Lion8bit);
ALTGRAD_OF_RULE(LionFp8);
ALTGRAD_OF_RULE(ManifoldAdamW);
ALTGRAD_OF_RULE(Muon); // of matrices
ALTGRAD_OF_RULE(NorMuon);
ALTGRAD_NARROW(Adam4bit, Adam, AdamOptions);
ALTGRAD_NARROW(Adam8bit, Adam, AdamOptions);
ALTGRAD_NARROW(AdamFp8, Adam, AdamOptions);
ALTGRAD_NARROW(AdamW4bit, AdamW, AdamWOptions);
ALTGRAD_NARROW(AdamW8bit, AdamW, AdamWOptions);
ALTGRAD_NARROW(AdamWFp8, AdamW, AdamWOptions);
#undef ALTGRAD_STOCK
#undef ALTGRAD_OF_RULE
#undef ALTGRAD_NARROW

} // namespace altgrad::optim

#endif // ALTGRAD_OPTIM_H
