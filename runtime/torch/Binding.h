// The groups and states of a torch::optim optimizer as rows of a table, kept
// from step to step.
#ifndef ALTGRAD_TORCH_BINDING_H
#define ALTGRAD_TORCH_BINDING_H

#include "Request.h"
#include "TensorTable.h"
#include "altgrad/optim.h"

#include <deque>

namespace altgrad::optim {

class Binding {
public:
  using Groups = std::vector<torch::optim::OptimizerParamGroup>;
  using States =
      ska::flat_hash_map<void *,
                         std::unique_ptr<torch::optim::OptimizerParamState>>;

  explicit Binding(RuleSpec spec) : spec(spec), compiler(spec) {}

  // Compiles what the groups need; `otherwise` are the options where there is
  // no parameter.
  void prepare(const Groups &groups, const std::string &otherwise);
  // What the rule takes; the same for every set.
  const std::vector<Scalar> &hypers() const;
  // Takes the gradients of a step; true if tables were made for it, so that
  // every value is to be given again. Throws before a tensor is changed.
  bool take(const Groups &groups, States &states);

  // What the groups' options were when they were last read.
  struct Marks {
    std::vector<uint64_t> words;
    std::vector<size_t> ends;
    bool isSame(const Marks &other, size_t index) const;
  };
  Marks marks;
  std::vector<std::string> options; // compile-time options of each group
  std::vector<char> changed;        // groups whose values are to be given again

  // A group of the plan: the tensors of a param_group that are in one set.
  struct Cell {
    size_t group;
    const std::vector<Scalar> *hypers;
    uint64_t *values;
  };
  std::vector<Cell> cells;
  std::unique_ptr<TensorTable> table; // null: no parameter has a gradient
  RuleSpec spec;

private:
  // A parameter of a set, before anything is made for it.
  struct Draft {
    at::Tensor param;
    Place place;
    int32_t set = 0;
  };
  // Where the states of a set are kept.
  struct Keys {
    std::vector<std::string> kept;
    std::string step; // "" where the rule has none
  };

  bool isAsBound(const Groups &groups, const States &states);
  bool hasSameStates(const States &states);
  bool holdsRows(const States &states) const;
  void bind(const Groups &groups, States &states);
  std::set<std::string> linesOf(const Groups &groups) const;
  std::vector<Draft> draft(const Groups &groups);
  void findKeys();
  void checkStates(const std::vector<Draft> &drafts, const States &states);
  const at::Tensor *hold(at::Tensor tensor);
  Row makeRow(const Draft &draft, States &states);
  void remember(const Groups &groups, const States &states);

  Compiler compiler;
  std::shared_ptr<const Program> program;
  std::vector<Keys> keys; // of each set

  // What was bound.
  bool bound = false;
  std::vector<c10::TensorImpl *> params;
  std::vector<size_t> sizes; // of the groups
  std::vector<std::string> boundOptions;
  std::deque<at::Tensor> held; // what the table's rows and `idle` point to
  std::vector<const at::Tensor *> idle;
  std::vector<std::pair<void *, const void *>> boundStates;
  uint64_t edits = 0;
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_BINDING_H
