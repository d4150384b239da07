// Planning: sweeps in order, between them what folds reductions and what
// computes scalars, once for the step and once for each row.
#include "codegen/Phases.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include <map>

using namespace mlir;
using namespace altgrad;

StringRef altgrad::stringifyDomain(Domain domain) {
  switch (domain) {
  case Domain::Chunks:
    return "chunks";
  case Domain::Rows:
    return "rows";
  case Domain::Once:
    return "once";
  }
  llvm_unreachable("unknown domain");
}

const Partial &PhasePlan::partialOf(Value reduced) const {
  for (const Partial &partial : partials) {
    SweepOp sweep = partial.sweep;
    if (sweep.getReduced()[partial.result] == reduced)
      return partial;
  }
  llvm_unreachable("not a reduction");
}

Layout altgrad::layoutOf(StepOp step) {
  Layout layout;
  for (BlockArgument argument : step.getBody().getArguments()) {
    bool stream = isa<TensorsType>(argument.getType());
    unsigned *counter;
    if (stream)
      counter = step.getAccess(argument) == "in" ? &layout.inputs
                                                 : &layout.rowPointers;
    else if (step.getScope(argument) == Scope::Step)
      counter = &layout.stepScalars;
    else if (step.getScope(argument) == Scope::Group)
      counter = &layout.groupScalars;
    else
      counter = &layout.rowPointers;
    layout.bindings.push_back({argument, stream, (*counter)++});
  }
  return layout;
}

namespace {
class PhasePlanner {
public:
  explicit PhasePlanner(StepOp step) : step(step) {}
  FailureOr<PhasePlan> run();

private:
  void addSweep(SweepOp sweep);
  void flush();
  void pullEarly();
  LogicalResult addWrites();
  LogicalResult addWrite(Value value, BlockArgument target, Value condition);
  Phase &scalars(int batch, Domain domain);
  void addSlots();
  bool perRow(Value value);
  void findRowValues();
  int batchOf(Value value);
  int lastReader(BlockArgument argument);

  StepOp step;
  PhasePlan plan;
  DenseSet<Value> rowValues;
  SmallVector<Operation *> waiting; // scalars since the last sweep
  SweepOp unfolded;                 // a sweep whose partials wait
  // Batch b holds the scalars between sweep b-1 and sweep b.
  int batch = 0;
  DenseMap<Operation *, int> batches;
  struct Scalars {
    Phase once, rows;
    SmallVector<Partial> folds;
  };
  std::vector<Scalars> scalarPhases;
  SmallVector<SweepOp> sweeps;
};
} // namespace

// Whether a scalar may differ between tensors.
bool PhasePlanner::perRow(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return step.getScope(argument) != Scope::Step;
  return rowValues.contains(value);
}

void PhasePlanner::findRowValues() {
  for (Operation &op : step.getBody().front()) {
    if (auto sweep = dyn_cast<SweepOp>(op)) {
      for (unsigned i = 0; i < sweep.getNumResults(); ++i)
        if (sweep.getScope(i) == Scope::Tensor)
          rowValues.insert(sweep.getReduced()[i]);
    } else if (llvm::any_of(op.getOperands(), [&](Value operand) {
                 return perRow(operand);
               })) {
      rowValues.insert(op.result_begin(), op.result_end());
    }
  }
}

int PhasePlanner::batchOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return 0;
  auto it = batches.find(op);
  return it == batches.end() ? 0 : it->second;
}

void PhasePlanner::flush() {
  Scalars phases;
  phases.once.kind = phases.rows.kind = Phase::Scalars;
  phases.once.domain = Domain::Once;
  phases.rows.domain = Domain::Rows;
  if (unfolded)
    for (const Partial &partial : plan.partials)
      if (partial.sweep == unfolded) {
        phases.folds.push_back(partial);
        if (unfolded.getScope(partial.result) == Scope::Step)
          phases.once.folds.push_back(partial);
      }
  for (Operation *op : waiting)
    (perRow(op->getResult(0)) ? phases.rows : phases.once).ops.push_back(op);
  scalarPhases.push_back(std::move(phases));
  waiting.clear();
  unfolded = {};
}

// What comes after the last sweep but does not need it, such as a step count,
// joins the scalars before it: a launch less.
void PhasePlanner::pullEarly() {
  if (sweeps.empty())
    return;
  SmallVector<Operation *> late;
  for (Operation *op : waiting) {
    bool needs = llvm::any_of(op->getOperands(), [&](Value operand) {
      return batchOf(operand) == batch;
    });
    if (needs) {
      late.push_back(op);
      continue;
    }
    batches[op] = batch - 1;
    Scalars &earlier = scalarPhases[batch - 1];
    (perRow(op->getResult(0)) ? earlier.rows : earlier.once).ops.push_back(op);
  }
  waiting = late;
}

void PhasePlanner::addSweep(SweepOp sweep) {
  flush();
  sweeps.push_back(sweep);
  ++batch;
  batches[sweep] = batch; // its results are known in the batch after it
  for (unsigned i = 0; i < sweep.getNumResults(); ++i)
    plan.partials.push_back({sweep, i, plan.chunkWords++, plan.rowWords++});
  unfolded = sweep.getNumResults() ? sweep : SweepOp();
}

// The last batch that reads the memory of a scalar argument.
int PhasePlanner::lastReader(BlockArgument argument) {
  int last = 0;
  Block *block = &step.getBody().front();
  for (Operation *user : argument.getUsers()) {
    Operation *top = block->findAncestorOpInBlock(*user);
    if (!isa<CommitOp>(top)) // a sweep's entry is the batch after it
      last = std::max(last, batches.lookup(top));
  }
  return last;
}

LogicalResult PhasePlanner::addWrite(Value value, BlockArgument target,
                                     Value condition) {
  Scope scope = step.getScope(target);
  if (scope == Scope::Group)
    return step.getCommit().emitOpError()
           << "writes '%" << step.getName(target)
           << "', which is per_group; only scalars of the step and per_tensor "
              "ones are written";
  bool rows = scope == Scope::Tensor;
  if (!rows && (perRow(value) || (condition && perRow(condition))))
    return step.getCommit().emitOpError()
           << "writes a value that differs between tensors to '%"
           << step.getName(target) << "', which is one for the step";
  int at = std::max({batchOf(value), condition ? batchOf(condition) : 0,
                     lastReader(target)});
  Scalars &phases = scalarPhases[at];
  (rows ? phases.rows : phases.once)
      .writes.push_back({value, target, condition});
  return success();
}

LogicalResult PhasePlanner::addWrites() {
  CommitOp commit = step.getCommit();
  for (auto [value, target] :
       llvm::zip(commit.getAlwaysValues(), commit.getAlwaysTargets()))
    if (failed(addWrite(value, cast<BlockArgument>(target), {})))
      return failure();
  for (auto [value, target] :
       llvm::zip(commit.getValues(), commit.getTargets()))
    if (failed(addWrite(value, cast<BlockArgument>(target),
                        commit.getCondition())))
      return failure();
  return success();
}

// Every scalar that another kernel than its own reads gets a word.
void PhasePlanner::addSlots() {
  DenseMap<Operation *, const Phase *> home;
  for (const Phase &phase : plan.phases)
    for (Operation *op : phase.ops)
      home[op] = &phase;
  auto need = [&](Value value, const Phase &reader) {
    Operation *op = value.getDefiningOp();
    if (!op || isa<arith::ConstantOp, SpillOp>(op) || plan.slots.count(value))
      return;
    if (auto sweep = dyn_cast<SweepOp>(op)) {
      const Partial &partial = plan.partialOf(value);
      bool tensor = sweep.getScope(partial.result) == Scope::Tensor;
      plan.slots[value] = tensor ? Slot{Domain::Rows, partial.rowWord}
                                 : Slot{Domain::Once, plan.stepWords++};
      return;
    }
    if (home.lookup(op) == &reader)
      return;
    bool rows = perRow(value);
    plan.slots[value] = rows ? Slot{Domain::Rows, plan.rowWords++}
                             : Slot{Domain::Once, plan.stepWords++};
  };
  for (const Phase &phase : plan.phases) {
    SweepOp sweep = phase.sweep;
    for (Operation *op : phase.ops)
      for (Value operand : op->getOperands())
        need(operand, phase);
    for (const ScalarWrite &write : phase.writes) {
      need(write.value, phase);
      if (write.condition)
        need(write.condition, phase);
    }
    if (!sweep)
      continue;
    if (sweep.getCondition())
      need(sweep.getCondition(), phase);
    sweep.getBody().walk([&](Operation *op) {
      for (Value operand : op->getOperands())
        if (!sweep.getBody().isAncestor(operand.getParentRegion()))
          need(operand, phase);
    });
  }
}

FailureOr<PhasePlan> PhasePlanner::run() {
  findRowValues();
  for (Operation &op : step.getBody().front()) {
    if (auto sweep = dyn_cast<SweepOp>(op)) {
      addSweep(sweep);
    } else if (auto spill = dyn_cast<SpillOp>(op)) {
      plan.spills.push_back(spill);
    } else if (!isa<arith::ConstantOp, CommitOp>(op)) {
      if (isa<AltgradDialect>(op.getDialect()))
        return op.emitOpError("is no sweep: altgrad-sweeps comes first"),
               failure();
      batches[&op] = batch;
      waiting.push_back(&op);
    }
  }
  pullEarly();
  flush();
  if (failed(addWrites()))
    return failure();
  for (auto [index, phases] : llvm::enumerate(scalarPhases)) {
    std::string suffix = index ? std::to_string(index) : "";
    if (!phases.folds.empty()) {
      Phase fold{Phase::Fold, "fold" + suffix, Domain::Rows, {}, {}, {}, {}};
      fold.folds = phases.folds;
      plan.phases.push_back(fold);
    }
    if (!phases.once.ops.empty() || !phases.once.folds.empty() ||
        !phases.once.writes.empty()) {
      phases.once.name = "once" + suffix;
      plan.phases.push_back(phases.once);
    }
    if (!phases.rows.ops.empty() || !phases.rows.writes.empty()) {
      phases.rows.name = "rows" + suffix;
      plan.phases.push_back(phases.rows);
    }
    if (index < sweeps.size()) {
      Phase sweep{Phase::Sweep, sweeps[index].getName().str(), Domain::Chunks,
                  sweeps[index], {}, {}, {}};
      plan.phases.push_back(sweep);
    }
  }
  std::map<std::string, int> seen; // names become symbols
  for (Phase &phase : plan.phases)
    if (int count = seen[phase.name]++)
      phase.name += "_" + std::to_string(count);
  addSlots();
  return plan;
}

FailureOr<PhasePlan> altgrad::planPhases(StepOp step) {
  return PhasePlanner(step).run();
}
