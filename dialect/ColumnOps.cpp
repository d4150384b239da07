// Verification of what is reduced and stored per block of a column, and of rows and
// columns.
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

LogicalResult SquareMaxOp::verify() {
  // square_c1
  if (getBlock() != squareBlock)
    return emitOpError() << "has blocks of " << getBlock()
                         << " rows and columns, expected " << squareBlock;
  return success();
}

bool altgrad::isTileMax(Operation *op) {
  return isa_and_nonnull<ColumnMaxOp, SquareMaxOp>(op);
}

bool altgrad::isCutByTiles(TensorsType type) {
  return type.getBlock() > tileColumns || type.getPacked();
}

LogicalResult altgrad::verifyTiles(SweepOp sweep) {
  int64_t maxima = llvm::count_if(
      sweep.getBody().front(), [](Operation &op) { return isTileMax(&op); });
  // sweep_c12
  if (sweep.getNumResults() || maxima > 1)
    return sweep.emitOpError() << "takes the largest of columns or squares of "
                               << maxima << " values and has " << sweep.getNumResults()
                               << " reductions, expected one and none";
  // sweep_c13
  if (sweep.getBlock() > tileColumns)
    return sweep.emitOpError() << "takes the largest of columns or squares beside blocks of "
                               << sweep.getBlock() << " elements, which tiles of "
                               << tileColumns << " columns would cut";
  for (Value stream : sweep.getOperands())
    // sweep_c15
    if (auto type = dyn_cast<TensorsType>(stream.getType()); type && type.getPacked())
      return sweep.emitOpError() << "takes the largest of columns or squares beside "
                                 << type << ", whose bytes tiles would cut";
  return success();
}

// The maxima of columns and squares that a value is computed from.
static SmallVector<Operation *> maximaOf(Value value) {
  llvm::SetVector<Value> seen;
  seen.insert(value);
  SmallVector<Operation *> maxima;
  for (size_t i = 0; i < seen.size(); ++i) {
    Operation *op = seen[i].getDefiningOp();
    if (isTileMax(op))
      maxima.push_back(op);
    else if (op)
      seen.insert_range(op->getOperands());
  }
  return maxima;
}

// Whether a value reads its element otherwise than by the largest of `columns`, which
// are those of a list, and `but`; by any largest where it is 0.
static bool readsElement(Value value, ArrayRef<Value> but, unsigned columns,
                         const Variances &variances) {
  auto knows = [&](Operation *op) {
    return columns == 0  ? isTileMax(op)
           : columns > 1 ? isa_and_nonnull<SquareMaxOp>(op)
                         : isa_and_nonnull<ColumnMaxOp>(op);
  };
  llvm::SetVector<Value> seen;
  seen.insert(value);
  for (size_t i = 0; i < seen.size(); ++i) {
    Value next = seen[i];
    Operation *op = next.getDefiningOp();
    if (!variances.isElement(next) || llvm::is_contained(but, next) ||
        knows(op))
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
  if (tensors.getColumns() &&
      readsElement(value, {}, tensors.getColumns(), variances))
    return op->emitOpError()
           << "stores a value that differs between elements of a "
           << (tensors.isOfSquares() ? "square to " : "column to ") << tensors
           << "; an altgrad." << (tensors.isOfSquares() ? "square" : "column")
           << "_max gives one for a block";
  SmallVector<Value> reduced;
  for (Operation *most : maximaOf(value))
    reduced.push_back(most->getOperand(0));
  // step_c29
  if (!reduced.empty() && readsElement(value, reduced, 0, variances))
    return op->emitOpError()
           << "stores what is computed from the largest of a "
           << (isa<SquareMaxOp>(maximaOf(value)[0]) ? "square" : "column")
           << " and from more of its element than that is of";
  return success();
}

LogicalResult altgrad::verifyColumns(StepOp step, const Variances &variances) {
  WalkResult walked = step.walk([&](Operation *most) {
    if (!isTileMax(most))
      return WalkResult::advance();
    bool same = variances.spanOf(most->getOperand(0)) > 1;
    // column_c2
    if (same && isa<ColumnMaxOp>(most))
      most->emitOpError("reduces a value that is the same for several elements");
    // square_c2
    if (same && isa<SquareMaxOp>(most))
      most->emitOpError("reduces a value that is the same for all of a square");
    return same ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  CommitOp commit = step.getCommit();
  for (auto [values, targets] :
       {std::pair(commit.getValues(), commit.getTargets()),
        std::pair(commit.getAlwaysValues(), commit.getAlwaysTargets())})
    for (auto [value, target] : llvm::zip(values, targets))
      if (failed(verifyStore(commit, value, target, variances)))
        return failure();
  walked = step.walk([&](SweepOp sweep) {
    // sweep_c16
    if (sweep.goesOverTiles() && variances.readUnit(sweep)) {
      sweep.emitOpError("takes the largest of columns or squares beside what "
                        "differs between units, which tiles would join");
      return WalkResult::interrupt();
    }
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
