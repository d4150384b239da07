// The groups and states of a torch::optim optimizer as rows of a table, kept
// from step to step.
#ifndef ALTGRAD_TORCH_BINDING_H
#define ALTGRAD_TORCH_BINDING_H

#include "altgrad/optim.h"
#include "amp/LossScale.h"
#include "optim/Matrices.h"
#include "optim/NormHooks.h"
#include "optim/Request.h"
#include "table/TensorTable.h"

#include <deque>

namespace altgrad::optim {

// Takes a Muon's profile out of the specification of its rule, where it has one.
altgrad_core_preset takePreset(RuleSpec &spec);

class Binding {
public:
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;
  using States = ska::flat_hash_map<void *, std::unique_ptr<torch::optim::OptimizerParamState>>;

  explicit Binding(RuleSpec given, const std::string &entry = "")
      : profile(takePreset(given)), spec(given), isEntry(!entry.empty()), compiler(given, entry) {}

  // Compiles what the groups need; `otherwise` are the options where there is
  // no parameter.
  void prepare(const Groups &groups, const std::string &otherwise);
  bool isPrepared() const { return bool(first); }
  // Of an entry: whether a parameter has all states of it.
  bool hasStates(const States &states, const at::Tensor &param) const;
  // Throws for a parameter that a group which says this does not take.
  void checkTakes(const MatrixOptions &of, const at::Tensor &param, const ParamIndex &place);
  // What the rule of a group that says this takes.
  c10::ArrayRef<Scalar> hypers(const MatrixOptions &of);
  // Takes the gradients of a step; true if tables were made for it, so that
  // every value is to be given again. Throws before a tensor is changed.
  bool take(const Groups &groups, States &states);

  // Says, each time in a process once, what the storage loses with the
  // hyper-parameters that the tables were given.
  void warnOfLimits();

  // Where a scaler's numbers are for the step that was taken.
  void bindScaler(ScalerStep &scalerStep);
  // Counts a step that the scaler skipped without calling the optimizer.
  void skip();

  // How many of its steps were skipped, or what else is counted; 0 where nothing is.
  at::Tensor countOf(const std::string &name) const;

  // What the optimizer keeps of its steps beside states, in its file.
  void saveOwn(torch::serialize::OutputArchive &archive) const;
  void loadOwn(torch::serialize::InputArchive &archive);

  // What the states are, in its file. Throws where they are none of this
  // storage.
  void saveStorage(torch::serialize::OutputArchive &archive) const;
  void checkStorage(torch::serialize::InputArchive &archive) const;
  // Brings states that were loaded from a file into this storage; answers what parameters have to become.
  using Edits = std::vector<std::pair<at::Tensor, at::Tensor>>;
  Edits transcode(torch::serialize::InputArchive &archive, const Groups &groups, States &states) const;
  bool transcodes = false; // what is loaded

  // Whether gradients have one norm, over all devices.
  bool hasNorm() const { return spec.max_grad_norm() && spec.clip() != "agc" && spec.clip() != "agc-unit"; }

  // Performs the step on what was taken.
  void run();

  // The whole of which a parameter is a part, from an element on.
  struct Shard {
    std::vector<int64_t> sizes;
    int64_t offset;
    int64_t numel() const { return c10::multiply_integers(sizes); }
  };
  void setShard(const at::Tensor &param, Shard shard);

  // What the groups' options were when they were last read.
  struct Marks {
    std::vector<uint64_t> words;
    std::vector<size_t> ends;
    bool isSame(const Marks &other, size_t index) const;
  };
  Marks marks;
  std::vector<std::string> options; // compile-time options of each group
  std::vector<MatrixOptions> matrixOptions; // and what they say of matrices
  std::vector<char> changed;        // groups whose values are to be given again
  std::map<std::pair<size_t, std::string>, at::Tensor> tensors; // hyper-parameters of groups that lie in them
  std::string scaler;               // the variant of a loss scaler, or ""
  std::map<std::string, at::Tensor> own; // what steps count and note where it lies

  // A group of a plan: the tensors of a param_group that are in one set.
  struct Cell {
    size_t group;
    int32_t set;
  };
  // The parameters on one device that have a gradient, or had one.
  struct DevicePlan {
    DeviceContext context;
    std::shared_ptr<const Program> program;
    std::vector<Cell> cells;
    std::unique_ptr<TensorTable> table;
    bool multipliesOnDevice() const;
  };
  std::vector<DevicePlan> plans; // none: no parameter has a gradient
  altgrad_core_preset profile;             // its `options` are null where there is none
  double presetAdamWLr = profile.adamw.lr; // also where the options of all groups say another
  size_t begun = 0; // groups that have been parted and have the words of the profile
  RuleSpec spec;
  const bool isEntry; // of the rule, over its states
  std::map<std::string, std::unique_ptr<Binding>> ofEntries;
  std::map<std::string, double> given; // hyper-parameters in the place of those of the groups

private:
  std::vector<TensorTable *> tables() const;
  at::Tensor beginOf(const std::string &name) const;
  void bindOwn();
  // A parameter of a set, before anything is made for it.
  struct Draft {
    at::Tensor param, dense; // which are one where the parameter has no gaps
    ParamIndex place;
    Matrices matrices;
    std::string line; // of its set
    int64_t tag;      // which of all parameters it is
    int64_t more;     // matrices beside the first of all parameters before it, where they are apart
    int32_t set = 0;
  };

  bool isAsBound(const Groups &groups, const States &states);
  bool hasSameStates(const States &states);
  bool holdsRows(const States &states) const;
  void bind(const Groups &groups, States &states);
  void findKinds(const Groups &groups);
  // Null where a parameter is a whole.
  const Shard *shardOf(const at::Tensor &param) const;
  void checkShard(const Program &program, const Draft &draft) const;
  std::string lineOf(const MatrixOptions &of, const at::Tensor &param, const Matrices &matrices);
  std::string lineOf(const MatrixOptions &of);
  std::set<std::string> linesOf(const Groups &groups, at::Device device);
  using Drafts = std::vector<Draft>;
  using Known = std::set<c10::TensorImpl *>;
  std::vector<Drafts> draft(const Groups &groups, const Known &known);
  Known boundRows(const States &states) const;
  DevicePlan makeDevicePlan(const Groups &groups, Drafts &drafts, Joined joined);
  std::set<std::string> keysInFile() const;
  std::string storageLine() const;
  RuleParamState transcoded(const RuleParamState &state, const std::string &line, const at::Tensor &param,
                            at::Tensor &upper) const;
  void checkStates(const DevicePlan &part, const Drafts &drafts, const States &states, Memory &memory) const;
  const at::Tensor *hold(at::Tensor tensor);
  void commit(const DevicePlan &part, const std::vector<Row> &rows, States &states);
  std::vector<Row> makeRow(const DevicePlan &part, const Draft &draft, const States &states);
  std::vector<Row> makeRows(DevicePlan &part, const Drafts &drafts, const States &states);
  void remember(const Groups &groups, const States &states);

  Compiler compiler;
  std::map<c10::TensorImpl *, Shard> shards;
  bool units = false;                                  // some parameter has several matrices as units
  bool several = false;                                // some group has a rule of its own
  std::map<std::string, c10::ArrayRef<Scalar>> hypersOf; // each rule
  std::shared_ptr<const Program> first;                // of the constructor
  std::set<std::string> firstLines;                    // its sets

  // What was bound.
  bool bound = false;
  std::vector<c10::TensorImpl *> params;
  std::vector<size_t> sizes; // of the groups
  std::vector<std::string> boundOptions;
  std::string boundScaler;
  std::deque<at::Tensor> held; // what the table's rows and `idle` point to
  std::vector<const at::Tensor *> idle;
  std::vector<std::pair<void *, const void *>> boundStates;
  uint64_t edits = 0;

public:
  NormHooks hooks; // the last member: they go before what they look at
};

// The state of a parameter; null where it has none.
RuleParamState *stateOf(const Binding::States &states, const at::Tensor &param);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_BINDING_H
