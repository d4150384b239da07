// Verification of what is reduced and stored per block of elements.
#include "dialect/Variance.h"

using namespace mlir;
using namespace altgrad;

LogicalResult BlockReduceOp::verify() {
  // block_c1
  if (!isBlock(getBlock()))
    return emitOpError() << "has blocks of " << getBlock()
                         << " elements, expected a power of two from "
                         << minBlock << " to " << maxBlock;
  // block_c2
  if (getReduction() != Reduction::Max)
    return emitOpError() << "combines by '"
                         << stringifyReduction(getReduction())
                         << "'; blocks have 'max' alone";
  return success();
}

LogicalResult altgrad::verifyBlock(BlockReduceOp reduce,
                                   const Variances &variances) {
  // block_c3
  if (variances.spanOf(reduce.getValue()) >= reduce.getBlock())
    return reduce.emitOpError(
        "reduces a value that is the same for all elements of a block");
  return success();
}

static LogicalResult verifyStore(Operation *op, Value value, Value stream,
                                 const Variances &variances) {
  auto tensors = dyn_cast<TensorsType>(stream.getType());
  // step_c19
  if (tensors && !tensors.getColumns() && variances.spanOf(value) < tensors.getBlock())
    return op->emitOpError()
           << "stores a value that differs between elements to " << tensors
           << "; an altgrad.block_reduce gives one for a block";
  return success();
}

LogicalResult altgrad::verifyBlocks(StepOp step, const Variances &variances) {
  WalkResult walked = step.walk([&](BlockReduceOp reduce) {
    return WalkResult(verifyBlock(reduce, variances));
  });
  if (walked.wasInterrupted())
    return failure();
  CommitOp commit = step.getCommit();
  for (unsigned i = 0; i < commit.getValues().size(); ++i)
    if (failed(verifyStore(commit, commit.getValues()[i],
                           commit.getTargets()[i], variances)))
      return failure();
  for (unsigned i = 0; i < commit.getAlwaysValues().size(); ++i)
    if (failed(verifyStore(commit, commit.getAlwaysValues()[i],
                           commit.getAlwaysTargets()[i], variances)))
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
