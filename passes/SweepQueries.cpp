// What passes and code generation ask of a sweep and of its streams.
#include "passes/SweepQueries.h"

using namespace mlir;
using namespace altgrad;

bool altgrad::usesIndex(SweepOp sweep) {
  return llvm::any_of(sweep->getRegions(), [](Region &region) { return !region.getOps<IndexOp>().empty(); });
}

bool altgrad::usesDraws(SweepOp sweep) { return !sweep.getBody().getOps<DrawOp>().empty(); }

bool altgrad::exchangesInBlocks(SweepOp sweep) {
  return !blockReductions(sweep.getBody()).empty() ||
         llvm::any_of(sweep.getLoads(), [](Value stream) { return sharedBy(stream) > 1; }) ||
         llvm::any_of(sweep.getStores(), isPacked);
}

bool altgrad::isOfHalves(SweepOp sweep) {
  auto isHalf = [](Value stream) {
    auto type = cast<TensorsType>(stream.getType());
    return type.getFormat().getKnownName() == "bf16" && !type.isShared();
  };
  return llvm::all_of(streamsOf(sweep), isHalf) && blockReductions(sweep.getBody()).empty();
}

SmallVector<ReduceOp> altgrad::blockReductions(Region &body) {
  return llvm::to_vector(
      llvm::make_filter_range(body.getOps<ReduceOp>(), [](ReduceOp reduce) { return !isOverTile(reduce); }));
}

SmallVector<StageOp> altgrad::stagesOf(Region &body) { return llvm::to_vector(body.getOps<StageOp>()); }

LogicalResult altgrad::onPhases(StepOp step, StringRef target,
                                function_ref<LogicalResult(PhaseOp, SweepOp, const Target &)> of) {
  const Target *machine = findTarget(target, step);
  return success(machine && llvm::all_of(step.getBody().getOps<PhaseOp>(), [&](PhaseOp phase) {
                   return succeeded(of(phase, phase.getSweep(), *machine));
                 }));
}

LogicalResult altgrad::checkSweep(SweepOp sweep, const Target &target) {
  if (sweep.getWide().empty() || sweep.getWidth() != target.vectorWidth)
    return sweep.emitOpError() << "has a body for " << sweep.getWidth() << " elements, '" << target.name << "' wants "
                               << target.vectorWidth;
  SweepOp tiles = sweep.getTiles();
  bool isUncut = llvm::any_of(sweep.getBody().front(), [](Operation &op) { return isOverTile(&op); });
  if (isUncut || (tiles && stagesOf(tiles.getBody()).size() != 3) ||
      (exchangesInBlocks(sweep) && stagesOf(sweep.getBody()).empty()))
    return sweep.emitOpError("has blocks and no stages; run altgrad-cut-stages before altgrad-vectorize");
  return success();
}

bool altgrad::isOfTileBlock(Value stream) { return cast<TensorsType>(stream.getType()).getBlock().isOverRows(); }

unsigned altgrad::blockOf(Value stream) { return cast<TensorsType>(stream.getType()).getBlock().getColumns(); }

unsigned altgrad::sharedBy(Value stream) { return isPacked(stream) ? 2 : isOfTileBlock(stream) ? 1 : blockOf(stream); }

unsigned altgrad::bitsOf(Value stream) { return 8 * bytesOf(stream) / (isPacked(stream) ? 2 : 1); }

unsigned altgrad::bytesOf(Value stream) { return cast<TensorsType>(stream.getType()).getFormat().getBytes(); }

bool altgrad::isPacked(Value stream) { return cast<TensorsType>(stream.getType()).getPacked(); }

llvm::SetVector<Operation *> altgrad::neededFor(ValueRange wanted, Region &body, const IRMapping &known) {
  llvm::SetVector<Operation *> needed;
  SmallVector<Value> work(wanted);
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (op && body.isAncestor(op->getParentRegion()) && !known.contains(value) && needed.insert(op))
      llvm::append_range(work, op->getOperands());
  }
  return needed;
}

llvm::BitVector altgrad::argumentsFor(ValueRange wanted, Region &body, const IRMapping &known) {
  llvm::BitVector read(body.getNumArguments());
  auto note = [&](ValueRange values) {
    for (Value value : values)
      if (auto argument = dyn_cast<BlockArgument>(value);
          argument && argument.getOwner() == &body.front() && !known.contains(value))
        read.set(argument.getArgNumber());
  };
  note(wanted);
  for (Operation *op : neededFor(wanted, body, known))
    note(op->getOperands());
  return read;
}
