// Verification of what is reduced and stored per block of a column.
#include "dialect/Variance.h"

using namespace mlir;
using namespace altgrad;

LogicalResult ColumnMaxOp::verify() {
  // column_c1
  if (getBlock() != columnBlock)
    return emitOpError() << "has blocks of " << getBlock()
                         << " elements, expected " << columnBlock;
  return success();
}

// The maxima of columns that a value is computed from.
static SmallVector<ColumnMaxOp> maximaOf(Value value) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  SmallVector<ColumnMaxOp> maxima;
  for (size_t i = 0; i < seen.size(); ++i) {
    Operation *op = seen[i].getDefiningOp();
    if (auto most = dyn_cast_or_null<ColumnMaxOp>(op))
      maxima.push_back(most);
    else if (op)
      seen.insert_range(op->getOperands());
  }
  return maxima;
}

// Whether a value reads its element otherwise than by maxima of columns and `but`.
static bool readsElement(Value value, ArrayRef<Value> but,
                         const Variances &variances) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (size_t i = 0; i < seen.size(); ++i) {
    Value next = seen[i];
    Operation *op = next.getDefiningOp();
    if (!variances.isElement(next) || llvm::is_contained(but, next) ||
        isa_and_nonnull<ColumnMaxOp>(op))
      continue;
    if (!op || op->getNumOperands() == 0 || isa<DrawOp, UpdateOp>(op))
      return true;
    seen.insert_range(op->getOperands());
  }
  return false;
}

static LogicalResult verifyStore(Operation *op, Value value, Value stream,
                                 const Variances &variances) {
  auto tensors = dyn_cast<TensorsType>(stream.getType());
  if (!tensors)
    return success();
  // step_c28
  if (tensors.getColumns() && readsElement(value, {}, variances))
    return op->emitOpError()
           << "stores a value that differs between elements of a column to "
           << tensors << "; an altgrad.column_max gives one for a block";
  SmallVector<Value> reduced;
  for (ColumnMaxOp most : maximaOf(value))
    reduced.push_back(most.getValue());
  // step_c29
  if (!reduced.empty() && readsElement(value, reduced, variances))
    return op->emitOpError("stores what is computed from the largest of a column "
                           "and from more of its element than that is of");
  return success();
}

LogicalResult altgrad::verifyColumns(StepOp step, const Variances &variances) {
  ColumnMaxOp first;
  WalkResult walked = step.walk([&](ColumnMaxOp most) {
    first = first ? first : most;
    // column_c2
    if (variances.spanOf(most.getValue()) == 1)
      return WalkResult::advance();
    most.emitOpError("reduces a value that is the same for several elements");
    return WalkResult::interrupt();
  });
  if (walked.wasInterrupted())
    return failure();
  // step_c30
  if (first && step.hasUnits())
    return first.emitOpError("in a step that reduces over units, which are rows");
  CommitOp commit = step.getCommit();
  for (auto [values, targets] :
       {std::pair(commit.getValues(), commit.getTargets()),
        std::pair(commit.getAlwaysValues(), commit.getAlwaysTargets())})
    for (auto [value, target] : llvm::zip(values, targets))
      if (failed(verifyStore(commit, value, target, variances)))
        return failure();
  walked = step.walk([&](SweepOp sweep) {
    for (Region &body : sweep->getRegions())
      for (auto [value, stream] :
           llvm::zip(llvm::drop_begin(body.front().getTerminator()->getOperands(),
                                      sweep.getNumResults()),
                     sweep.getStores()))
        if (failed(verifyStore(sweep, value, stream, variances)))
          return WalkResult::interrupt();
    return WalkResult::advance();
  });
  return success(!walked.wasInterrupted());
}
