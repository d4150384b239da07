// A step in sweeps and scalars ==> a list of phases.
#include "passes/Forms.h"
#include "passes/Passes.h"
#include "passes/phases/PhasePlan.h"

#include "mlir/IR/IRMapping.h"

namespace altgrad {
#define GEN_PASS_DEF_PLANPHASESPASS
#include "passes/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

namespace {
// Writes one phase of a plan before the commit.
class PhaseWriter {
public:
  PhaseWriter(StepOp step, const PhasePlan &plan) : plan(plan), builder(step.getLoc(), step.getContext()) {
    builder.setInsertionPoint(step.getCommit());
  }
  void write(const Phase &phase);

private:
  void writeSweep(SweepOp sweep);
  void writeFold(const Partial &partial, bool overTensors);
  void writeTotal(Value sum, Reduction how, unsigned word, unsigned set, bool ofTensors = false, StringAttr name = {});
  void writeTotal(Value sum, Value share, StringAttr name = {});
  void writeScalar(Operation *op);
  void writeBack(ArrayRef<ScalarWrite> writes);
  Value getScalar(Value value);
  void storeToWorkspace(Value value, Value here);

  const PhasePlan &plan;
  ImplicitLocOpBuilder builder;
  IRMapping known; // value of the step ==> its copy in this phase
};
} // namespace

// A scalar in this phase: a copy of a constant or of a question about the row, what the phase has computed
// itself, a word of the workspace or the memory of an argument.
Value PhaseWriter::getScalar(Value value) {
  if (Value have = known.lookupOrNull(value))
    return have;
  Value here;
  Operation *op = value.getDefiningOp();
  if (op && isCopied(*op)) {
    here = builder.clone(*op)->getResult(0);
  } else if (isa<BlockArgument>(value)) {
    here = ReadOp::create(builder, value.getType(), value);
  } else {
    Word word = plan.words.lookup(value);
    // A fold of a row has 32 bits, a total of the step one.
    bool mask = value.getDefiningOp<SweepOp>() && word.space != Space::Step && value.getType().isInteger(1);
    here =
        WorkspaceLoadOp::create(builder, mask ? Type(builder.getI32Type()) : value.getType(), word.space, word.number);
    if (mask)
      here =
          arith::CmpIOp::create(builder, arith::CmpIPredicate::ne, here, arith::ConstantIntOp::create(builder, 0, 32));
  }
  known.map(value, here);
  return here;
}

void PhaseWriter::storeToWorkspace(Value value, Value here) {
  known.map(value, here);
  if (auto word = plan.words.find(value); word != plan.words.end())
    WorkspaceStoreOp::create(builder, here, word->second.space, word->second.number);
}

void PhaseWriter::writeSweep(SweepOp sweep) {
  if (Value condition = sweep.getCondition())
    getScalar(condition);
  for (Value value : sweep.getScalars())
    getScalar(value);
  auto copy = cast<SweepOp>(builder.clone(*sweep, known));
  for (auto [value, here] : llvm::zip(sweep.getReduced(), copy.getReduced()))
    WorkspaceStoreOp::create(builder, here, Space::Chunk, plan.getPartial(value).chunkWord);
}

void PhaseWriter::writeFold(const Partial &partial, bool overTensors) {
  bool mask = partial.reduction() == Reduction::And;
  Type type = mask ? Type(builder.getI32Type()) : builder.getF32Type();
  auto fold = FoldOp::create(builder, type, partial.reduction(), partial.chunkWord, overTensors, /*rows=*/false,
                             partial.walk());
  WorkspaceStoreOp::create(builder, fold, Space::Row, partial.rowWord);
}

// Over the words of a set's rows.
void PhaseWriter::writeTotal(Value sum, Reduction how, unsigned word, unsigned set, bool ofTensors, StringAttr name) {
  auto rows = plan.sets.count() > 1 ? builder.getI64IntegerAttr(set) : IntegerAttr();
  storeToWorkspace(sum, TotalOp::create(builder, sum.getType(), how, word, rows, ofTensors, name));
}

// `share` is a reduction over the step: of what a sweep leaves, or of numbers of the tensors.
void PhaseWriter::writeTotal(Value sum, Value share, StringAttr name) {
  auto across = share.getDefiningOp<AcrossOp>();
  if (!across) {
    const Partial &partial = plan.getPartial(share);
    const unsigned set = plan.sets.of(partial.sweep);
    const bool ofSquares = partial.walk() != Walk::Chunks;
    return writeTotal(sum, partial.reduction(), partial.rowWord, set,
                      ofSquares && SweepOp(partial.sweep)->getParentOfType<StepOp>().hasUnits(set), name);
  }
  unsigned set = plan.sets.of(across.getNumber()).value_or(across.getSet().value_or(0));
  writeTotal(sum, across.getKind(), plan.words.lookup(across.getNumber()).number, set,
             across->getParentOfType<StepOp>().hasUnits(set), name);
}

void PhaseWriter::writeScalar(Operation *op) {
  if (auto across = dyn_cast<AcrossOp>(op))
    return writeTotal(across.getSum(), across.getSum());
  if (auto sum = dyn_cast<AllReduceOp>(op))
    return writeTotal(sum.getTotal(), sum.getShare(), sum.getSumAttr());
  auto work = dyn_cast<PhaseWork>(op);
  SmallVector<MemoryAccess> own = work ? work.getReads() : SmallVector<MemoryAccess>();
  for (Value operand : op->getOperands())
    if (llvm::none_of(own, [&](const MemoryAccess &access) { return access.memory == operand; }))
      getScalar(operand);
  builder.clone(*op, known);
  for (Value result : op->getResults())
    storeToWorkspace(result, known.lookup(result));
}

// All values are read before the first is written.
void PhaseWriter::writeBack(ArrayRef<ScalarWrite> writes) {
  for (const ScalarWrite &write : writes) {
    getScalar(write.value);
    if (write.condition)
      getScalar(write.condition);
  }
  for (const ScalarWrite &write : writes)
    WriteOp::create(builder, known.lookup(write.value), write.target,
                    write.condition ? known.lookup(write.condition) : Value());
}

void PhaseWriter::write(const Phase &phase) {
  IntegerAttr set = phase.set ? builder.getI64IntegerAttr(*phase.set) : nullptr;
  auto op = PhaseOp::create(builder, phase.name, phase.domain, set, phase.exchange, DictionaryAttr());
  OpBuilder::InsertionGuard guard(builder);
  builder.createBlock(&op.getBody());
  known.clear();
  for (const Partial &partial : phase.folds)
    if (phase.domain == Domain::Rows)
      writeFold(partial, phase.overTensors);
    else if (!phase.exchange || plan.words.contains(partial.value()))
      writeTotal(partial.value(), partial.value());
  for (AcrossOp sum : phase.unitSums) {
    auto fold = FoldOp::create(builder, sum.getType(), sum.getKind(), plan.words.lookup(sum.getNumber()).number,
                               /*tensor=*/true, /*rows=*/true);
    WorkspaceStoreOp::create(builder, fold, Space::Row, plan.words.lookup(sum.getSum()).number);
  }
  for (Operation *scalar : phase.ops)
    writeScalar(scalar);
  writeBack(phase.writes);
  for (MultiplyOp product : phase.products)
    builder.clone(*product);
  if (phase.sweep)
    writeSweep(phase.sweep);
}

namespace {
struct PlanPhases : altgrad::impl::PlanPhasesPassBase<PlanPhases> {
  using PlanPhasesPassBase::PlanPhasesPassBase;

  void runOnOperation() override {
    StepOp step = getOperation();
    if (failed(checkForm(step, getArgument(), Form::Sweeps, Form::Sweeps)))
      return signalPassFailure();
    FailureOr<PhasePlan> plan = planPhases(step, exchange);
    if (failed(plan))
      return signalPassFailure();
    SmallVector<Operation *> old;
    for (Operation &op : step.getBody().front())
      if (!isa<SpillOp>(op))
        old.push_back(&op);
    PhaseWriter writer(step, *plan);
    for (const Phase &phase : plan->phases)
      writer.write(phase);
    OpBuilder builder(step.getCommit());
    CommitOp::create(builder, step.getLoc(), /*condition=*/Value(), ValueRange(), ValueRange(), ValueRange(),
                     ValueRange());
    for (Operation *op : llvm::reverse(old))
      op->erase();
  }
};
} // namespace
