// Planning: sweeps in order, between them what folds reductions and what
// computes scalars, once for the step and once for each row.
#include "codegen/phases/ScalarWrites.h"

#include "dialect/Variance.h"
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

StringRef altgrad::stringifyKind(Phase::Kind kind) {
  switch (kind) {
  case Phase::Sweep:
    return "sweep";
  case Phase::Fold:
    return "fold";
  case Phase::Total:
    return "total";
  case Phase::Scalars:
    return "scalars";
  }
  llvm_unreachable("unknown kind");
}

const Partial &PhasePlan::partialOf(Value reduced) const {
  for (const Partial &partial : partials) {
    SweepOp sweep = partial.sweep;
    if (sweep.getReduced()[partial.result] == reduced)
      return partial;
  }
  llvm_unreachable("not a reduction");
}

// Words of a row or a group are counted from 0 in each set, behind those that
// every set has: tensors and groups of different sets share them.
namespace {
class Slots {
public:
  unsigned take(std::optional<unsigned> set) {
    if (!set)
      return shared++;
    return shared + own[*set]++;
  }
  unsigned count() const {
    unsigned most = 0;
    for (auto [set, used] : own)
      most = std::max(most, used);
    return shared + most;
  }

private:
  unsigned shared = 0;
  std::map<unsigned, unsigned> own;
};
} // namespace

Layout altgrad::layoutOf(StepOp step) {
  bool oneSet = step.getSetCount() == 1;
  Slots inputs, rows, groups, steps;
  auto bind = [&](BlockArgument argument) -> Binding {
    bool stream = isa<TensorsType>(argument.getType());
    std::optional<unsigned> set = step.getSet(argument);
    Scope scope = step.getScope(argument);
    if (oneSet && (stream || scope != Scope::Step))
      set = 0;
    Slots &slots = stream ? (step.getAccess(argument) == "in" ? inputs : rows)
                   : scope == Scope::Step  ? steps
                   : scope == Scope::Group ? groups
                                           : rows;
    return {argument, stream, slots.take(set), set};
  };
  Layout layout;
  Block::BlockArgListType arguments = step.getBody().getArguments();
  layout.bindings.resize(arguments.size());
  for (bool shared : {true, false})
    for (BlockArgument argument : arguments)
      if (shared == (!oneSet && !step.getSet(argument)))
        layout.bindings[argument.getArgNumber()] = bind(argument);
  layout.inputs = inputs.count();
  layout.rowPointers = rows.count();
  layout.groupScalars = groups.count();
  layout.stepScalars = steps.count();
  return layout;
}

namespace {
class PhasePlanner {
public:
  PhasePlanner(StepOp step, bool exchange)
      : step(step), exchange(exchange), variances(step) {
    plan.sets = RowSets(step);
  }
  FailureOr<PhasePlan> run();

private:
  /// The scalars between two sweeps, and the folds they need.
  struct Batch {
    SmallVector<Partial> folds;
    Phase once;
    std::vector<Phase> rows; // by set, all rows first
  };

  void addSweep(SweepOp sweep);
  void flush();
  void pullEarly(bool last);
  int earlier(Operation *op, bool last);
  bool uses(SweepOp sweep, ArrayRef<SweepOp> reduced);
  LogicalResult addWrites();
  ScalarHome homeOf(Value value);
  Phase *find(Batch &batch, const ScalarHome &home);
  Phase &scalars(Batch &batch, const ScalarHome &home);
  void addOp(Batch &batch, Operation *op);
  void addFolds(const Batch &batch, StringRef suffix);
  void addOnce(const Phase &once, SmallVectorImpl<Phase> &phases);
  void addPhases();
  void addSlots();
  /// Whether a scalar may differ between tensors.
  bool perRow(Value value) { return variances.of(value) != Variance::Step; }
  int batchOf(Value value);

  StepOp step;
  bool exchange;
  PhasePlan plan;
  Variances variances;
  SmallVector<Operation *> waiting; // scalars since the last sweep
  SmallVector<SweepOp> unfolded;    // sweeps whose partials wait
  int batch = 0; // batch b lies between sweep b-1 and sweep b
  DenseMap<Operation *, int> batches; // of a sweep: the one after it
  DenseMap<Operation *, int> folded;  // where a sweep's results are known
  std::vector<Batch> scalarPhases;
  SmallVector<SweepOp> sweeps;
};
} // namespace

int PhasePlanner::batchOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<SweepOp>(op))
    return folded.lookup_or(op, batch);
  return op ? batches.lookup(op) : 0;
}

// One set's rows are all rows.
ScalarHome PhasePlanner::homeOf(Value value) {
  return {perRow(value) ? Domain::Rows : Domain::Once,
          plan.sets.count() == 1 ? std::nullopt : plan.sets.of(value)};
}

Phase *PhasePlanner::find(Batch &batch, const ScalarHome &home) {
  if (home.domain == Domain::Once)
    return batch.once.name.empty() ? nullptr : &batch.once;
  auto it = llvm::find_if(
      batch.rows, [&](const Phase &phase) { return phase.set == home.set; });
  return it == batch.rows.end() ? nullptr : &*it;
}

// What is of all rows comes first: it never needs what is of one set.
Phase &PhasePlanner::scalars(Batch &batch, const ScalarHome &home) {
  if (Phase *found = find(batch, home))
    return *found;
  Phase made;
  made.kind = Phase::Scalars;
  made.domain = home.domain;
  made.set = home.set;
  made.name = stringifyDomain(home.domain);
  if (home.domain == Domain::Once)
    return batch.once = made;
  auto after = llvm::find_if(
      batch.rows, [&](const Phase &phase) { return phase.set > home.set; });
  return *batch.rows.insert(after, made);
}

void PhasePlanner::addOp(Batch &batch, Operation *op) {
  scalars(batch, homeOf(op->getResult(0))).ops.push_back(op);
}

void PhasePlanner::flush() {
  Batch &phases = scalarPhases.emplace_back();
  for (SweepOp sweep : unfolded) {
    folded[sweep] = batch;
    for (const Partial &partial : plan.partials) {
      if (partial.sweep != sweep)
        continue;
      phases.folds.push_back(partial);
      if (sweep.getScope(partial.result) == Scope::Step)
        scalars(phases, {Domain::Once, {}}).folds.push_back(partial);
    }
  }
  for (Operation *op : waiting)
    addOp(phases, op);
  waiting.clear();
  unfolded.clear();
}

// The batch before the current one that an operation may join: where a launch
// for such scalars is made anyway, or, after the last sweep, the one before it.
int PhasePlanner::earlier(Operation *op, bool last) {
  int ready = 0;
  for (Value operand : op->getOperands())
    ready = std::max(ready, batchOf(operand));
  ScalarHome home = homeOf(op->getResult(0));
  for (int at = batch - 1; at >= ready; --at)
    if ((last && at == batch - 1) || find(scalarPhases[at], home))
      return at;
  return batch;
}

void PhasePlanner::pullEarly(bool last) {
  SmallVector<Operation *> late;
  for (Operation *op : waiting) {
    int at = earlier(op, last);
    batches[op] = at;
    if (at == batch)
      late.push_back(op);
    else
      addOp(scalarPhases[at], op);
  }
  waiting = late;
}

bool PhasePlanner::uses(SweepOp sweep, ArrayRef<SweepOp> reduced) {
  return llvm::any_of(sweep.getScalars(), [&](Value value) {
    return llvm::is_contained(reduced, value.getDefiningOp<SweepOp>());
  });
}

// Partial sums wait until somebody needs them: several sweeps share a batch.
void PhasePlanner::addSweep(SweepOp sweep) {
  pullEarly(/*last=*/false);
  if (waiting.empty() && !uses(sweep, unfolded))
    scalarPhases.emplace_back();
  else
    flush();
  sweeps.push_back(sweep);
  ++batch;
  batches[sweep] = batch;
  for (unsigned i = 0; i < sweep.getNumResults(); ++i)
    plan.partials.push_back({sweep, i, plan.chunkWords++, plan.rowWords++});
  if (sweep.getNumResults())
    unfolded.push_back(sweep);
}

LogicalResult PhasePlanner::addWrites() {
  ScalarOrder order{[this](Value value) { return homeOf(value); },
                    [this](Value value) { return batchOf(value); },
                    [this](Operation *op) { return batches.lookup(op); }};
  auto placed = placeWrites(step, order);
  if (failed(placed))
    return failure();
  for (const PlacedWrite &one : *placed) {
    if (one.batch >= int(scalarPhases.size()))
      scalarPhases.resize(one.batch + 1);
    scalars(scalarPhases[one.batch], one.home).writes.push_back(one.write);
  }
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
    if (!op || isa<arith::ConstantOp, SpillOp, TagOp, DimOp>(op) || plan.slots.count(value))
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
    if (phase.kind == Phase::Total)
      for (Partial partial : phase.folds)
        need(partial.sweep.getReduced()[partial.result], phase);
    for (Operation *op : phase.ops)
      for (Value operand : op->getOperands())
        need(operand, phase);
    for (const ScalarWrite &write : phase.writes) {
      need(write.value, phase);
      if (write.condition)
        need(write.condition, phase);
    }
    if (sweep)
      for (Value value : sweep.getScalars())
        need(value, phase);
  }
}

// One launch for all partials of the rows of a set.
void PhasePlanner::addFolds(const Batch &batch, StringRef suffix) {
  for (unsigned set = 0; set < plan.sets.count(); ++set) {
    Phase fold;
    for (const Partial &partial : batch.folds)
      if (plan.sets.of(partial.sweep) == set)
        fold.folds.push_back(partial);
    if (fold.folds.empty())
      continue;
    fold.kind = Phase::Fold;
    fold.name = ("fold" + suffix).str();
    fold.domain = Domain::Rows;
    fold.set = set;
    plan.phases.push_back(fold);
  }
}

// Sums over the step and what follows from them: one phase, or two with an exchange
// between them.
void PhasePlanner::addOnce(const Phase &once, SmallVectorImpl<Phase> &phases) {
  Phase scalars = once;
  if (exchange && !once.folds.empty()) {
    Phase total;
    total.kind = Phase::Total;
    total.name = "total";
    total.domain = Domain::Once;
    total.folds = std::move(scalars.folds);
    scalars.folds.clear();
    phases.push_back(total);
  }
  if (!scalars.folds.empty() || !scalars.ops.empty() || !scalars.writes.empty())
    phases.push_back(scalars);
}

void PhasePlanner::addPhases() {
  for (auto [index, batch] : llvm::enumerate(scalarPhases)) {
    std::string suffix = index ? std::to_string(index) : "";
    addFolds(batch, suffix);
    SmallVector<Phase> scalars;
    if (find(batch, {Domain::Once, {}}))
      addOnce(batch.once, scalars);
    llvm::append_range(scalars, batch.rows);
    for (Phase &phase : scalars) {
      phase.name += suffix;
      plan.phases.push_back(phase);
    }
    if (index >= sweeps.size())
      continue;
    Phase sweep;
    sweep.kind = Phase::Sweep;
    sweep.name = sweeps[index].getName().str();
    sweep.domain = Domain::Chunks;
    sweep.set = plan.sets.of(sweeps[index]);
    sweep.sweep = sweeps[index];
    plan.phases.push_back(sweep);
  }
  std::map<std::string, int> seen; // names become symbols
  for (Phase &phase : plan.phases)
    if (int count = seen[phase.name]++)
      phase.name += "_" + std::to_string(count);
}

FailureOr<PhasePlan> PhasePlanner::run() {
  for (Operation &op : step.getBody().front()) {
    if (auto sweep = dyn_cast<SweepOp>(op)) {
      addSweep(sweep);
    } else if (auto spill = dyn_cast<SpillOp>(op)) {
      plan.spills.push_back(spill);
    } else if (!isa<arith::ConstantOp, CommitOp, TagOp, DimOp>(op)) {
      if (isa<AltgradDialect>(op.getDialect()))
        return op.emitOpError("is no sweep: altgrad-sweeps comes first"),
               failure();
      batches[&op] = batch;
      waiting.push_back(&op);
    }
  }
  pullEarly(/*last=*/!sweeps.empty());
  flush();
  if (failed(addWrites()))
    return failure();
  addPhases();
  addSlots();
  return plan;
}

FailureOr<PhasePlan> altgrad::planPhases(StepOp step, bool exchange) {
  return PhasePlanner(step, exchange).run();
}
