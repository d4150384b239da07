// Scalars of a phase ==> loads, arithmetic and stores.
#include "codegen/kernels/Scalars.h"

#include "codegen/kernels/Reductions.h"
#include "codegen/numerics/Numerics.h"

using namespace mlir;
using namespace altgrad;

void ScalarLowering::write(WriteOp op) {
  ImplicitLocOpBuilder &builder = kernel.builder;
  auto store = [&] {
    auto target = cast<BlockArgument>(op.getTarget());
    Value value = known.lookup(op.getValue());
    if (isa<FloatType>(value.getType()))
      value = canonicalNan(builder, value);
    kernel.storeWord(value, kernel.load(kernel.pointerType(),
                                        kernel.argumentPointer(target, row),
                                        sizeof(void *)));
  };
  if (op.getCondition())
    kernel.when(known.lookup(op.getCondition()), store);
  else
    store();
}

// The sum with a row's share, if the row is of the total's set.
Value ScalarLowering::joinRow(TotalOp op, Value sum, Value index) {
  ImplicitLocOpBuilder &builder = kernel.builder;
  auto joined = [&]() -> Value {
    Value word =
        kernel.load(sum.getType(),
                    kernel.word(Space::Row, op.getWord(), Row{index, {}}), 4);
    return join(builder, op.getReduction(), sum, word);
  };
  if (!op.getSet())
    return joined();
  Value set = kernel.rowHeader(kernel.row(index), ALTGRAD_ROW_SET);
  Value own = arith::CmpIOp::create(builder, arith::CmpIPredicate::eq, set,
                                    kernel.i64(*op.getSet()));
  auto branch = scf::IfOp::create(builder, TypeRange{sum.getType()}, own,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, joined());
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, sum);
  return branch.getResult(0);
}

// Rows in order: this sum has no other shape.
Value ScalarLowering::total(TotalOp op) {
  ImplicitLocOpBuilder &builder = kernel.builder;
  Type type = partialType(op.getReduction(), op.getValue().getType());
  Value sum = kernel.loopWith(
      kernel.i64(0), kernel.member(Member::RowCount), kernel.i64(1),
      neutral(builder, op.getReduction(), type),
      [&](Value index, SmallVector<Value> carried) -> SmallVector<Value> {
        return {joinRow(op, carried[0], index)};
      })[0];
  if (op.getReduction() == Reduction::And)
    return arith::CmpIOp::create(builder, arith::CmpIPredicate::ne, sum,
                                 kernel.i32(0));
  return sum;
}

// The word of a row's header that holds what an operation asks for.
static std::optional<altgrad_row_word> headerWordOf(Operation &op) {
  if (isa<TagOp>(op))
    return ALTGRAD_ROW_TAG;
  if (auto dim = dyn_cast<DimOp>(op))
    return altgrad_row_word(ALTGRAD_ROW_MATRIX_ROWS +
                            unsigned(dim.getDimension()));
  return std::nullopt;
}

void ScalarLowering::lower(Operation &op) {
  auto pointer = [&](Value argument) {
    return kernel.load(
        kernel.pointerType(),
        kernel.argumentPointer(cast<BlockArgument>(argument), row),
        sizeof(void *));
  };
  if (auto read = dyn_cast<ReadOp>(op))
    known.map(read.getValue(),
              kernel.loadWord(read.getType(), pointer(read.getScalar())));
  else if (auto recall = dyn_cast<RecallOp>(op))
    known.map(recall.getValue(),
              kernel.loadWord(
                  recall.getType(),
                  kernel.word(recall.getSpace(), recall.getWord(), row)));
  else if (auto keep = dyn_cast<KeepOp>(op))
    kernel.storeWord(known.lookup(keep.getValue()),
                     kernel.word(keep.getSpace(), keep.getWord(), row));
  else if (std::optional<altgrad_row_word> word = headerWordOf(op))
    known.map(op.getResult(0), kernel.rowHeader(row, *word));
  else if (auto sum = dyn_cast<TotalOp>(op))
    known.map(sum.getValue(), total(sum));
  else if (auto store = dyn_cast<WriteOp>(op))
    write(store);
  else
    kernel.builder.clone(op, known);
}

void ScalarLowering::lower(PhaseOp phase) {
  for (Operation &op : phase.getBody().front())
    lower(op);
}

void ScalarLowering::lowerInside(SweepOp sweep) {
  for (Region &body : sweep->getRegions())
    for (Operation &op : body.front())
      if (headerWordOf(op))
        lower(op);
}

void ScalarLowering::lowerBefore(SweepOp sweep,
                                 function_ref<void(Value)> conditional) {
  for (Operation &op : *sweep->getBlock()) {
    if (&op == sweep)
      return;
    lower(op);
    if (Value condition = sweep.getCondition();
        condition && condition.getDefiningOp() == &op)
      conditional(known.lookup(condition));
  }
}
