// Planning: sweeps in order, between them what folds reductions and what
// computes scalars, once for the step and once for each row.
#include "passes/phases/PhasePlan.h"

#include "dialect/Variance.h"
#include <map>

using namespace mlir;
using namespace altgrad;

//===-- When and where a scalar is known --------------------------------------===//

namespace {
// Where a scalar is computed: once, in all rows or in the rows of a set. The
// phases of a batch run in this order.
struct ScalarPlacement {
  Domain domain; // Rows or Once
  std::optional<unsigned> set;
  unsigned rank() const { return domain == Domain::Once ? 0 : set ? *set + 2 : 1; }
};

// Batch b of scalars lies between sweep b-1 and sweep b.
class Schedule {
public:
  explicit Schedule(StepOp step) : variances(step), sets(step) {}

  ScalarPlacement getPlacement(Value value) const;
  // The batch in which a value is known; 0 for arguments.
  int getBatch(Value value) const;
  // Of an operation: its batch; of a sweep: the one after it.
  int getBatch(Operation *op) const { return batches.lookup(op); }

  void setBatch(Operation *op, int batch) { batches[op] = batch; }
  // The batch in which the sums of a sweep are folded; the last one until then.
  void setFoldBatch(SweepOp sweep, int batch) { folded[sweep] = batch; }
  void setLast(int batch) { last = batch; }

private:
  Variances variances;
  RowSets sets;
  DenseMap<Operation *, int> batches, folded;
  int last = 0;
};
} // namespace

// One set's rows are all rows.
ScalarPlacement Schedule::getPlacement(Value value) const {
  bool rows = variances.getScope(value) != Scope::Step;
  return {rows ? Domain::Rows : Domain::Once, sets.count() == 1 ? std::nullopt : sets.of(value)};
}

int Schedule::getBatch(Value value) const {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<SweepOp>(op))
    return folded.lookup_or(op, last);
  return op ? batches.lookup(op) : 0;
}

//===-- Writes of scalars -----------------------------------------------------===//

namespace {
struct ScheduledWrite {
  ScalarWrite write;
  ScalarPlacement placement;
  int batch;
};

// Writes move to later phases until nobody reads what they overwrite after them.
class WriteScheduler {
public:
  WriteScheduler(StepOp step, const Schedule &schedule) : step(step), schedule(schedule) {}
  FailureOr<SmallVector<ScheduledWrite>> run();

private:
  LogicalResult add(Value value, Value target, Value condition);
  bool delay(ScheduledWrite &write, int batch, unsigned rank);
  bool delayPastReaders(ScheduledWrite &write);

  StepOp step;
  const Schedule &schedule;
  bool units = step.hasUnits();
  SmallVector<ScheduledWrite> writes;
};
} // namespace

LogicalResult WriteScheduler::add(Value value, Value target, Value condition) {
  if (isa<TensorsType>(target.getType()))
    return success(); // a sweep has stored it
  auto argument = cast<BlockArgument>(target);
  Scope scope = step.getScope(argument);
  if (scope == Scope::Group)
    return step.getCommit().emitOpError() << "writes '%" << step.getName(argument)
                                          << "', which is per_group; only scalars of the step, per_tensor "
                                             "and per_unit ones are written";
  bool rows = scope != Scope::Step;
  auto differs = [&](Value one) { return one && schedule.getPlacement(one).domain == Domain::Rows; };
  if (!rows && (differs(value) || differs(condition)))
    return step.getCommit().emitOpError() << "writes a value that differs between tensors to '%"
                                          << step.getName(argument) << "', which is one for the step";
  std::optional<unsigned> set;
  for (Value one : {target, value, condition})
    if (rows && !set && one)
      set = schedule.getPlacement(one).set;
  int at = schedule.getBatch(value);
  if (condition)
    at = std::max(at, schedule.getBatch(condition));
  ScalarPlacement placement{rows ? Domain::Rows : Domain::Once, set};
  writes.push_back({{value, argument, condition}, placement, at});
  return success();
}

// Makes a write come no earlier than a reader; a phase reads before it writes.
bool WriteScheduler::delay(ScheduledWrite &write, int batch, unsigned rank) {
  // Other units of a tensor read in the same phase what the first one writes.
  bool beside = units && step.getScope(write.write.target) == Scope::Tensor && rank == write.placement.rank();
  int least = beside || rank > write.placement.rank() ? batch + 1 : batch;
  if (write.batch >= least)
    return false;
  write.batch = least;
  return true;
}

bool WriteScheduler::delayPastReaders(ScheduledWrite &write) {
  bool moved = false;
  Block *block = &step.getBody().front();
  for (Operation *user : write.write.target.getUsers()) {
    Operation *top = block->findAncestorOpInBlock(*user);
    if (isa<CommitOp>(top))
      continue;
    unsigned rank = isa<SweepOp>(top) ? 0 : schedule.getPlacement(top->getResult(0)).rank();
    moved |= delay(write, schedule.getBatch(top), rank);
  }
  for (const ScheduledWrite &other : writes)
    if (other.write.value == write.write.target && &other != &write)
      moved |= delay(write, other.batch, other.placement.rank());
  return moved;
}

FailureOr<SmallVector<ScheduledWrite>> WriteScheduler::run() {
  CommitOp commit = step.getCommit();
  for (auto [value, target, condition] : commit.writes())
    if (failed(add(value, target, condition)))
      return failure();
  // Each round that is not the last moves a write; only a circle goes on.
  for (size_t round = 0; round <= 2 * writes.size() + 1; ++round) {
    bool moved = false;
    for (ScheduledWrite &write : writes)
      moved |= delayPastReaders(write);
    if (!moved)
      return writes;
  }
  return commit.emitOpError("exchanges scalars that no single phase can write");
}

//===-- Phases ----------------------------------------------------------------===//

const Partial &PhasePlan::getPartial(Value reduced) const {
  for (const Partial &partial : partials)
    if (partial.value() == reduced)
      return partial;
  llvm_unreachable("not a reduction");
}

namespace {
class PhasePlanner {
public:
  PhasePlanner(StepOp step, bool exchange) : step(step), exchange(exchange), schedule(step) {
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

  LogicalResult checkTiles(SweepOp sweep);
  void addSweep(SweepOp sweep);
  void flush();
  void hoistScalars(bool last);
  int findEarlierBatch(Operation *op, bool last);
  bool uses(SweepOp sweep, ArrayRef<SweepOp> reduced);
  LogicalResult addWrites();
  Phase *findPhase(Batch &batch, const ScalarPlacement &placement);
  Phase &getOrAddPhase(Batch &batch, const ScalarPlacement &placement);
  void addOp(Batch &batch, Operation *op);
  void addFolds(const Batch &batch, StringRef suffix);
  void addOnce(const Phase &once, SmallVectorImpl<Phase> &phases);
  void addProducts(unsigned batch, StringRef suffix);
  void addUnitSums(unsigned batch, StringRef suffix);
  void addPhases();
  void addWords();
  /// Whether a tensor's sum is one of all its units, which have a row each.
  bool isAcrossUnits(const Partial &partial) { return units && partial.scope() == Scope::Tensor; }
  /// Whether a fold for the first row of a tensor joins it: one of all units, of all slices, or of the tensor's square.
  bool isOfTensor(const Partial &partial) {
    return ((units || exchange) && partial.scope() == Scope::Tensor) || (units && partial.walk() != Walk::Chunks);
  }

  StepOp step;
  bool units = step.hasUnits();
  bool exchange;
  PhasePlan plan;
  Schedule schedule;
  SmallVector<Operation *> waiting; // scalars since the last sweep
  SmallVector<SweepOp> unfolded;    // sweeps whose partials wait
  int batch = 0;                    // the one that is being filled
  std::vector<Batch> scalarPhases;
  unsigned stepWords = 0, rowWords = 0;
  std::map<Walk, unsigned> chunkWords;
  SmallVector<SweepOp> sweeps;
  DenseMap<unsigned, unsigned> tileRows;            // by set
  SmallVector<std::pair<int, MultiplyOp>> products; // with the number of the batch that they follow
  SmallVector<AcrossOp> unitSums;
};
} // namespace

Phase *PhasePlanner::findPhase(Batch &batch, const ScalarPlacement &placement) {
  if (placement.domain == Domain::Once)
    return batch.once.name.empty() ? nullptr : &batch.once;
  auto it = llvm::find_if(batch.rows, [&](const Phase &phase) { return phase.set == placement.set; });
  return it == batch.rows.end() ? nullptr : &*it;
}

// What is of all rows comes first: it never needs what is of one set.
Phase &PhasePlanner::getOrAddPhase(Batch &batch, const ScalarPlacement &placement) {
  if (Phase *found = findPhase(batch, placement))
    return *found;
  Phase made;
  made.domain = placement.domain;
  made.set = placement.set;
  made.name = stringifyDomain(placement.domain);
  if (placement.domain == Domain::Once)
    return batch.once = made;
  auto after = llvm::find_if(batch.rows, [&](const Phase &phase) { return phase.set > placement.set; });
  return *batch.rows.insert(after, made);
}

void PhasePlanner::addOp(Batch &batch, Operation *op) {
  getOrAddPhase(batch, schedule.getPlacement(op->getResult(0))).ops.push_back(op);
}

void PhasePlanner::flush() {
  Batch &phases = scalarPhases.emplace_back();
  for (SweepOp sweep : unfolded) {
    schedule.setFoldBatch(sweep, batch);
    for (const Partial &partial : plan.partials) {
      if (partial.sweep != sweep)
        continue;
      phases.folds.push_back(partial);
      if (partial.scope() == Scope::Step)
        getOrAddPhase(phases, {Domain::Once, {}}).folds.push_back(partial);
    }
  }
  for (Operation *op : waiting)
    addOp(phases, op);
  waiting.clear();
  unfolded.clear();
}

// The batch before the current one that an operation may join: where a launch
// for such scalars is made anyway, or, after the last sweep, the one before it.
int PhasePlanner::findEarlierBatch(Operation *op, bool last) {
  if (isa<AcrossOp>(op))
    return schedule.getBatch(op);
  if (auto sum = dyn_cast<AllReduceOp>(op)) // in the phase that has its share
    return schedule.getBatch(sum.getShare());
  int ready = 0;
  for (Value operand : op->getOperands())
    ready = std::max(ready, schedule.getBatch(operand));
  ScalarPlacement placement = schedule.getPlacement(op->getResult(0));
  for (int at = batch - 1; at >= ready; --at)
    if ((last && at == batch - 1) || findPhase(scalarPhases[at], placement))
      return at;
  return batch;
}

void PhasePlanner::hoistScalars(bool last) {
  SmallVector<Operation *> late;
  for (Operation *op : waiting) {
    int at = findEarlierBatch(op, last);
    schedule.setBatch(op, at);
    if (at == batch)
      late.push_back(op);
    else
      addOp(scalarPhases[at], op);
  }
  waiting = late;
}

bool PhasePlanner::uses(SweepOp sweep, ArrayRef<SweepOp> reduced) {
  return llvm::any_of(sweep.getScalars(),
                      [&](Value value) { return llvm::is_contained(reduced, value.getDefiningOp<SweepOp>()); });
}

// The tensors of a set are cut into tiles once.
LogicalResult PhasePlanner::checkTiles(SweepOp sweep) {
  unsigned rows = sweep.getTileRows();
  if (!rows || tileRows.try_emplace(plan.sets.of(sweep), rows).first->second == rows)
    return success();
  return sweep.emitOpError() << "goes over tiles of " << rows << " rows, and another one of its set over tiles of "
                             << tileRows[plan.sets.of(sweep)] << "; write block<" << squareBlock << "x" << squareBlock
                             << "> for all blocks over rows, or for none";
}

// Partial sums wait until somebody needs them: several sweeps share a batch.
// Without a sweep one batch ends, and the next sees all of its rows.
void PhasePlanner::addSweep(SweepOp sweep) {
  hoistScalars(/*last=*/false);
  if (sweep && waiting.empty() && !uses(sweep, unfolded))
    scalarPhases.emplace_back();
  else
    flush();
  sweeps.push_back(sweep);
  schedule.setLast(++batch);
  if (!sweep)
    return;
  schedule.setBatch(sweep, batch);
  for (unsigned i = 0; i < sweep.getNumResults(); ++i)
    plan.partials.push_back({sweep, i, chunkWords[sweep.getFoldedWalk()]++, rowWords++});
  if (sweep.getNumResults())
    unfolded.push_back(sweep);
}

LogicalResult PhasePlanner::addWrites() {
  auto scheduled = WriteScheduler(step, schedule).run();
  if (failed(scheduled))
    return failure();
  for (ScheduledWrite &one : *scheduled) {
    if (!products.empty()) // who multiplies may fail, and then nothing has changed
      one.batch = std::max(one.batch, products.back().first);
    if (one.batch >= int(scalarPhases.size()))
      scalarPhases.resize(one.batch + 1);
    getOrAddPhase(scalarPhases[one.batch], one.placement).writes.push_back(one.write);
  }
  return success();
}

// Whether all that is asked of a sum is its total over all sets and devices.
static bool isOnlyShared(Value sum) {
  return !sum.use_empty() && llvm::all_of(sum.getUsers(), llvm::IsaPred<AllReduceOp>);
}

// What computes an operation's result from words of the rows: of an all_reduce its share.
static Operation *getTotalled(Operation *op) {
  auto sum = dyn_cast<AllReduceOp>(op);
  return sum ? sum.getShare().getDefiningOp() : op;
}

// Every scalar that another kernel than its own reads gets a word.
void PhasePlanner::addWords() {
  DenseMap<Operation *, const Phase *> computedIn;
  for (const Phase &phase : plan.phases)
    for (Operation *op : phase.ops)
      computedIn[op] = &phase;
  auto need = [&](Value value, const Phase &reader) {
    Operation *op = value.getDefiningOp();
    if (!op || isCopied(*op) || plan.words.count(value))
      return;
    if (isa<SweepOp>(op)) {
      const Partial &partial = plan.getPartial(value);
      plan.words[value] = partial.scope() == Scope::Step ? Word{Space::Step, stepWords++}
                          : isAcrossUnits(partial)       ? Word{Space::Tensor, partial.rowWord}
                                                         : Word{Space::Row, partial.rowWord};
      return;
    }
    if (auto across = dyn_cast<AcrossOp>(op); across && across.getUnits()) {
      plan.words[value] = Word{Space::Tensor, rowWords++};
      return;
    }
    if (computedIn.lookup(op) == &reader)
      return;
    plan.words[value] = schedule.getPlacement(value).domain == Domain::Rows ? Word{Space::Row, rowWords++}
                                                                            : Word{Space::Step, stepWords++};
  };
  for (const Phase &phase : plan.phases) {
    SweepOp sweep = phase.sweep;
    if (phase.exchange)
      for (const Partial &partial : phase.folds)
        if (!isOnlyShared(partial.value()))
          need(partial.value(), phase);
    for (AcrossOp sum : phase.unitSums) {
      need(sum.getNumber(), phase);
      need(sum.getSum(), phase);
    }
    for (Operation *op : phase.ops)
      for (Value operand : getTotalled(op)->getOperands())
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

// One launch for all partials of the rows of a set, and one for those of its
// tensors where these have several rows or other devices have slices of them; a square is whole on one device.
void PhasePlanner::addFolds(const Batch &batch, StringRef suffix) {
  for (unsigned set = 0; set < plan.sets.count(); ++set)
    for (Walk walk : {Walk::Chunks, Walk::RowSquares, Walk::ColumnSquares})
      for (bool ofTensors : {false, true}) {
        Phase fold;
        fold.overTensors = units && ofTensors;
        fold.exchange = exchange && ofTensors && walk == Walk::Chunks;
        for (const Partial &partial : batch.folds)
          if (plan.sets.of(partial.sweep) == set && partial.walk() == walk && isOfTensor(partial) == ofTensors)
            fold.folds.push_back(partial);
        if (fold.folds.empty())
          continue;
        fold.name = ("fold" + suffix).str();
        fold.domain = Domain::Rows;
        fold.set = set;
        plan.phases.push_back(fold);
      }
}

// Sums over the step and what follows from them: one phase, or two with an exchange
// between them.
void PhasePlanner::addOnce(const Phase &once, SmallVectorImpl<Phase> &phases) {
  Phase scalars = once, total;
  if (exchange) {
    total.exchange = true;
    total.name = "total";
    std::swap(total.folds, scalars.folds);
    llvm::copy_if(scalars.ops, std::back_inserter(total.ops), llvm::IsaPred<AllReduceOp>);
    llvm::erase_if(scalars.ops, [](Operation *op) {
      return isa<AllReduceOp>(op) || (isa<AcrossOp>(op) && isOnlyShared(op->getResult(0)));
    });
  }
  if (!total.folds.empty() || !total.ops.empty())
    phases.push_back(total);
  if (!scalars.folds.empty() || !scalars.ops.empty() || !scalars.writes.empty())
    phases.push_back(scalars);
}

// Products need no scalars: all of a set's are one phase, before those of their batch.
void PhasePlanner::addProducts(unsigned batch, StringRef suffix) {
  for (unsigned set = 0; set < plan.sets.count(); ++set) {
    Phase phase;
    for (auto [after, product] : products)
      if (after == int(batch) && plan.sets.of(product.getInto()).value_or(0) == set)
        phase.products.push_back(product);
    if (phase.products.empty())
      continue;
    phase.name = ("matrix" + suffix).str();
    phase.domain = Domain::Rows;
    phase.set = set;
    plan.phases.push_back(phase);
  }
}

// Of numbers that an earlier batch has left in the rows, before the scalars of their own batch.
void PhasePlanner::addUnitSums(unsigned batch, StringRef suffix) {
  for (unsigned set = 0; set < plan.sets.count(); ++set) {
    Phase phase;
    for (AcrossOp sum : unitSums)
      if (schedule.getBatch(sum.getOperation()) == int(batch) && plan.sets.of(sum.getNumber()).value_or(0) == set)
        phase.unitSums.push_back(sum);
    if (phase.unitSums.empty())
      continue;
    phase.exchange = exchange; // other devices may have slices of its tensors
    phase.name = ("units" + suffix).str();
    phase.domain = Domain::Rows;
    phase.set = set;
    plan.phases.push_back(phase);
  }
}

void PhasePlanner::addPhases() {
  for (auto [index, batch] : llvm::enumerate(scalarPhases)) {
    std::string suffix = index ? std::to_string(index) : "";
    addProducts(index, suffix);
    addFolds(batch, suffix);
    addUnitSums(index, suffix);
    SmallVector<Phase, 2> scalars;
    if (findPhase(batch, {Domain::Once, {}}))
      addOnce(batch.once, scalars);
    llvm::append_range(scalars, batch.rows);
    for (Phase &phase : scalars) {
      phase.name += suffix;
      plan.phases.push_back(phase);
    }
    if (index >= sweeps.size() || !sweeps[index])
      continue;
    Phase sweep;
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
      if (failed(checkTiles(sweep)))
        return failure();
      addSweep(sweep);
    } else if (auto product = dyn_cast<MultiplyOp>(op)) {
      products.push_back({batch, product});
    } else if (!isCopied(op) && !isa<CommitOp>(op)) {
      auto across = dyn_cast<AcrossOp>(op);
      if (across && !across.getUnits() && exchange && !isOnlyShared(across.getSum()))
        return op.emitOpError("is a sum that other devices' cannot join: leave out --exchange"), failure();
      if (across)
        addSweep({});
      schedule.setBatch(&op, batch);
      if (across && across.getUnits())
        unitSums.push_back(across);
      else
        waiting.push_back(&op);
    }
  }
  hoistScalars(/*last=*/!sweeps.empty());
  flush();
  if (failed(addWrites()))
    return failure();
  addPhases();
  addWords();
  return plan;
}

// A phase keeps what it computes, and sums over tensors or units are of what a phase has kept.
static void computeSummedArguments(StepOp step) {
  DenseMap<Value, Value> computed;
  for (AcrossOp across : llvm::to_vector(step.getBody().front().getOps<AcrossOp>())) {
    Value number = across.getNumber();
    if (!isa<BlockArgument>(number))
      continue;
    OpBuilder builder(across);
    Value &value = computed[number];
    if (!value)
      value = RoundOp::create(builder, across.getLoc(), number.getType(), number,
                              FormatAttr::getNamed(builder.getContext(), "f32"));
    across.getNumberMutable().assign(value);
  }
}

FailureOr<PhasePlan> altgrad::planPhases(StepOp step, bool exchange) {
  computeSummedArguments(step);
  return PhasePlanner(step, exchange).run();
}
