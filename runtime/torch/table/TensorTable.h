// Tensors bound to one plan: what is validated before every step, and the step.
#ifndef ALTGRAD_TORCH_TENSORTABLE_H
#define ALTGRAD_TORCH_TENSORTABLE_H

#include "altgrad/rule_spec.h"
#include "core/altgrad_core.h"
#include "table/Program.h"
#include "table/Values.h"
#include "tensors/Objects.h"
#include "tensors/Owned.h"

#include <array>
#include <memory>
#include <optional>

namespace altgrad::optim {

// A parameter with a gradient, and what its step keeps: where the handles of
// the tensors lie. Whoever makes a table keeps them there.
struct Row {
  const at::Tensor *param = nullptr;
  int32_t set = 0;
  int64_t group = 0;                    // of the plan: of hyper-parameters
  std::vector<const at::Tensor *> kept; // one for each of the states of its set
  const at::Tensor *count = nullptr;    // of steps, where the rule has them
  int64_t place = -1;                   // among all parameters
  const at::Tensor *dense = nullptr;    // what kernels step in the place of a parameter with gaps
  std::optional<altgrad_core_matrices> matrices;
  int64_t piece = -1, more = 0; // as altgrad_core_row has them: a parameter of several pieces has a row for each
  at::IntArrayRef whole; // of a part: the sizes of the whole
  int64_t offset = 0;    // and the index in it of the first element
  const at::Tensor &stepped() const { return dense ? *dense : *param; }
};

// What has changed since a table was made.
enum class Change { None, Gradients, Tensors };

// What one device has of a reduction over the step.
struct Share {
  at::Tensor word;
  int32_t reduction; // of the C ABI
  std::string sum;   // of a rule, by its name; else ""
};

// States lie in memory as their parameter does, in the types of the program.
class TensorTable {
public:
  // Rows come set by set and lie on one device; `groups` has the set of each
  // group of the plan, `idle` the parameters without a gradient.
  TensorTable(std::shared_ptr<const Program> program, const DeviceContext &context, std::vector<Row> rows,
              const std::vector<int32_t> &groups, std::vector<const at::Tensor *> idle);

  // Takes the gradients of this step, and keeps them alive until it has run. A
  // row without one takes no part in it: its tensors and their versions stay.
  // Gradients: one came for a parameter without a row, is of another kind than
  // was bound, or all went. Tensors: a parameter or what is kept is not as it was
  // bound. Either asks for another table. Changes no tensor.
  Change validate();

  // Runs the step on what validate() took, all of it or from one exchange point to
  // the next. What was written into a parameter from outside goes into its
  // master first.
  void run() {
    begin();
    while (advance(nullptr, nullptr)) {
    }
  }
  void begin();
  // False: the step is done. True: other devices or ranks may join in; `words`
  // gets the shares of this one, 0-dim tensors, to be overwritten in
  // place: of f32, or of i32 where they say whether all hold. Sums over tensors
  // of which other ranks have parts are joined on the way, by `gather`.
  bool advance(std::vector<Share> *words, const RuleSpec::all_gather_t &gather);

  // Null if sum() can do anything for the steps of this program and device; else why not.
  const char *unsummed() const { return altgrad_table_unsummed(table.get()); }
  // Does at once what the first sweep of a step does for this row, whose
  // gradient was just made: the next step takes it if the gradient and the loss
  // scale still are the same then, and otherwise does it again. Does nothing
  // before the first step, and for a gradient that would be copied.
  void sum(int64_t row) {
    if (const at::Tensor &grad = rows_[size_t(row)].param->grad(); grad.defined())
      checkTable(altgrad_table_sum(table.get(), row, handleOf(grad)));
  }
  // How many rows the last step took so, and how many it did not because
  // their gradients were changed.
  std::array<int64_t, 2> summedRows() const {
    std::array<int64_t, 2> counts;
    altgrad_table_counts(table.get(), counts.data());
    return counts;
  }

  // What the step reads and says, beside its tensors.
  Values values;

  // The memory that a run of now reads and writes.
  void addTo(Owned &owned) const;

  const Program &program() const { return *program_; }
  const std::vector<Row> &rows() const { return rows_; }
  // What the last step says of each row, by key: f32; NaN where none has said it. A step that is skipped leaves some.
  const std::map<std::string, at::Tensor> &statistics() const { return statistics_; }

private:
  // That of it which is the table's own.
  void addOwn(Owned &owned) const;
  void bindTensors(size_t groups);
  void bindStatistics();

  int32_t validateHandles(const AtenTensorHandle *given);
  bool copyOdd();
  void runTo(int64_t phase);
  void joinParts(const Stop &stop, const RuleSpec::all_gather_t &gather);
  void finish();

  std::shared_ptr<const Program> program_;
  DeviceContext context;
  std::vector<Row> rows_;
  std::vector<const at::Tensor *> idle;
  std::unique_ptr<altgrad_plan, void (*)(altgrad_plan *)> plan{nullptr, altgrad_plan_free};

  std::unique_ptr<altgrad_table, void (*)(altgrad_table *)> table{nullptr, altgrad_table_free};

  std::vector<const at::Tensor *> seen; // parameter, what is kept, count
  std::vector<at::Tensor> copies;       // all gradients, where one lies otherwise
  std::vector<uint8_t> takesPart; // whether a row has a gradient in this step
  bool inference = false;         // a tensor without a version counter is written

  std::map<std::string, at::Tensor> statistics_;
  at::Tensor workspace;
  uint64_t bytes = 0;
  size_t nextStop = 0;
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_TENSORTABLE_H
