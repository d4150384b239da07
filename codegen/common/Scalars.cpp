// Scalars of a phase ==> loads, arithmetic and stores.
#include "codegen/common/Scalars.h"

#include "codegen/common/Reductions.h"
#include "codegen/numerics/Numerics.h"

using namespace mlir;
using namespace altgrad;

// The memory of a scalar of the signature.
Value ScalarLowering::getPointer(Value argument) {
  return kernel.load(kernel.pointerType(), kernel.argumentPointer(cast<BlockArgument>(argument), row), sizeof(void *));
}

void ScalarLowering::write(WriteOp op) {
  CodeBuilder &builder = kernel.builder;
  auto target = cast<BlockArgument>(op.getTarget());
  auto store = [&] {
    Value value = known.lookup(op.getValue());
    if (isa<FloatType>(value.getType()))
      value = canonicalNan(builder, value);
    if (kernel.step.getRole(target) == Role::history)
      return appendToHistory(value, getPointer(target));
    kernel.storeWord(value, getPointer(target));
  };
  Value condition;
  if (op.getCondition())
    condition = known.lookup(op.getCondition());
  if (kernel.step.getScope(target) == Scope::Tensor && kernel.step.hasUnits()) {
    Value first = kernel.isFirstRow(row);
    condition = condition ? builder.bitAnd(condition, first) : first;
  }
  if (condition)
    kernel.when(condition, store);
  else
    store();
}

// Rows in order: this sum has no other shape.
Value ScalarLowering::total(TotalOp op) {
  CodeBuilder &builder = kernel.builder;
  Type type = partialType(op.getReduction(), op.getValue().getType());
  auto [begin, end] = kernel.getRows(op.getSet());
  Value sum = kernel.loopWith(begin, end, kernel.i64(1), neutral(builder, op.getReduction(), type),
                              [&](Value index, SmallVector<Value> carried) -> SmallVector<Value> {
                                Value word = kernel.word(Space::Row, op.getWord(), Row{index, {}});
                                Value one = kernel.load(type, word, 4);
                                if (op.getTensors())
                                  one = builder.select(kernel.isFirstRow(kernel.row(index)), one,
                                                       neutral(builder, op.getReduction(), type));
                                return {combine(builder, op.getReduction(), carried[0], one)};
                              })[0];
  return getTotal(builder, op.getReduction(), sum);
}

// The word of a row's header that holds what an operation asks for.
static std::optional<altgrad_row_word> getHeaderWord(Operation &op) {
  if (isa<TagOp>(op))
    return ALTGRAD_ROW_TAG;
  if (isUnitLength(&op)) // a row of the table is a unit
    return ALTGRAD_ROW_NUMEL;
  if (auto dim = dyn_cast<DimOp>(op))
    return altgrad_row_word(ALTGRAD_ROW_MATRIX_ROWS + unsigned(dim.getDimension()));
  return std::nullopt;
}

void ScalarLowering::lower(Operation &op) {
  if (isa<SpillOp>(op)) // memory of the kernel
    return;
  if (auto read = dyn_cast<ReadOp>(op))
    known.map(read.getValue(), kernel.loadWord(read.getType(), getPointer(read.getScalar())));
  else if (auto recall = dyn_cast<WorkspaceLoadOp>(op))
    known.map(recall.getValue(),
              kernel.loadWord(recall.getType(), kernel.word(recall.getSpace(), recall.getWord(), row)));
  else if (auto store = dyn_cast<WorkspaceStoreOp>(op))
    kernel.storeWord(known.lookup(store.getValue()), kernel.word(store.getSpace(), store.getWord(), row));
  else if (isa<HasFirstOp>(op))
    known.map(op.getResult(0), kernel.hasFirst(row));
  else if (std::optional<altgrad_row_word> word = getHeaderWord(op))
    known.map(op.getResult(0), kernel.rowHeader(row, *word));
  else if (auto sum = dyn_cast<TotalOp>(op))
    known.map(sum.getValue(), total(sum));
  else if (auto number = dyn_cast<PercentileOp>(op))
    known.map(number.getNumber(), percentile(number));
  else if (auto store = dyn_cast<WriteOp>(op))
    write(store);
  else
    kernel.builder.clone(op, known);
}

// What is in memory before the first write is loaded before anything is stored: loads wait for each other otherwise.
void ScalarLowering::lower(PhaseOp phase) {
  auto isKnown = [&](Operation &op) { return op.getNumResults() && known.contains(op.getResult(0)); };
  for (Operation &op : phase.getBody().front()) {
    if (isa<WriteOp>(op))
      break;
    if (isa<ReadOp, WorkspaceLoadOp>(op))
      lower(op);
  }
  for (Operation &op : phase.getBody().front())
    if (!isKnown(op))
      lower(op);
}

void ScalarLowering::lowerScalarsFor(SweepOp sweep, Value &count) {
  CodeBuilder &builder = kernel.builder;
  for (Operation &op : llvm::make_range(sweep->getBlock()->begin(), sweep->getIterator())) {
    lower(op);
    if (Value condition = sweep.getCondition(); condition && condition.getDefiningOp() == &op)
      count = builder.select(known.lookup(condition), count, builder.integer(count.getType(), 0));
  }
  for (Region &body : sweep->getRegions())
    for (Operation &op : body.front())
      if (getHeaderWord(op))
        lower(op);
}
