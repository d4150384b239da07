// What passes and code generation ask of a sweep and of its streams.
#include "passes/SweepQueries.h"

#include "dialect/WalkBack.h"

using namespace mlir;
using namespace altgrad;

bool altgrad::usesIndex(SweepOp sweep) {
  return llvm::any_of(sweep->getRegions(), [](Region &region) { return !region.getOps<IndexOp>().empty(); });
}

bool altgrad::usesDraws(SweepOp sweep) { return !sweep.getBody().getOps<DrawOp>().empty(); }

bool altgrad::isBlockwise(SweepOp sweep) {
  return !getBlockReductions(sweep.getBody()).empty() ||
         llvm::any_of(sweep.getLoads(), [](Value stream) { return getElementsPerEntry(stream) > 1; }) ||
         llvm::any_of(sweep.getStores(), isPacked);
}

bool altgrad::isAllBf16(SweepOp sweep) {
  auto isHalf = [](Value stream) {
    auto type = cast<TensorsType>(stream.getType());
    return type.getFormat().getKnownName() == "bf16" && !type.isShared();
  };
  return llvm::all_of(getStreams(sweep), isHalf) && getBlockReductions(sweep.getBody()).empty();
}

SmallVector<ReduceOp> altgrad::getBlockReductions(Region &body) {
  return llvm::to_vector(
      llvm::make_filter_range(body.getOps<ReduceOp>(), [](ReduceOp reduce) { return !isOverTile(reduce); }));
}

SmallVector<StageOp> altgrad::getStages(Region &body) { return llvm::to_vector(body.getOps<StageOp>()); }

LogicalResult altgrad::forEachPhase(StepOp step, StringRef target,
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
  if (isUncut || (tiles && getStages(tiles.getBody()).size() != 3) ||
      (isBlockwise(sweep) && getStages(sweep.getBody()).empty()))
    return sweep.emitOpError("has blocks and no stages; run altgrad-cut-stages before altgrad-vectorize");
  return success();
}

bool altgrad::isPerTileBlock(Value stream) { return cast<TensorsType>(stream.getType()).getBlock().isOverRows(); }

bool altgrad::isSmallSquare(Value stream) {
  return isPerTileBlock(stream) && getBlock(stream) > 1 && getBlock(stream) < squareBlock;
}

Walk altgrad::getWalk(Value stream) {
  auto type = dyn_cast<TensorsType>(stream.getType());
  return type ? getWalk(type.getBlock()) : Walk::Chunks;
}

bool altgrad::isPerColumn(Value stream) { return getWalk(stream) == Walk::Columns; }

bool altgrad::isMatrixProduct(Operation *op) { return isa<GramOp, ProductOp, MatmulOp, FactorizeOp>(op); }

unsigned altgrad::getBlock(Value stream) { return cast<TensorsType>(stream.getType()).getBlock().getColumns(); }

unsigned altgrad::getElementsPerEntry(Value stream) {
  return isPacked(stream) ? 2 : isPerTileBlock(stream) ? 1 : getBlock(stream);
}

unsigned altgrad::getBits(Value stream) { return 8 * getBytes(stream) / (isPacked(stream) ? 2 : 1); }

unsigned altgrad::getBytes(Value stream) { return cast<TensorsType>(stream.getType()).getFormat().getBytes(); }

bool altgrad::isPacked(Value stream) { return cast<TensorsType>(stream.getType()).getPacked(); }

bool altgrad::isOverColumn(Operation *op) {
  auto reduce = dyn_cast_or_null<ReduceOp>(op);
  return reduce && reduce.isOverColumn();
}

bool altgrad::isMatrixInput(Operation *op) {
  return isa_and_nonnull<CollectOp>(op) && llvm::any_of(op->getUsers(), isMatrixProduct);
}

FormatAttr altgrad::getWorkspaceFormat(Value value) {
  if (value.getType().isF32())
    return FormatAttr::getNamed(value.getContext(), "f32");
  auto encode = value.getDefiningOp<EncodeOp>();
  return encode && encode.getFormat().getBits() == 16 ? encode.getFormat() : FormatAttr();
}

llvm::SetVector<Operation *> altgrad::findOperations(ValueRange wanted, Region &body, const IRMapping &known) {
  llvm::SetVector<Operation *> needed;
  walkBack(wanted, [&](Value value) {
    Operation *op = value.getDefiningOp();
    return op && body.isAncestor(op->getParentRegion()) && !known.contains(value) && needed.insert(op);
  });
  return needed;
}

llvm::BitVector altgrad::findArguments(ValueRange wanted, Region &body, const IRMapping &known) {
  llvm::BitVector read(body.getNumArguments());
  auto note = [&](ValueRange values) {
    for (Value value : values)
      if (auto argument = dyn_cast<BlockArgument>(value);
          argument && argument.getOwner() == &body.front() && !known.contains(value))
        read.set(argument.getArgNumber());
  };
  note(wanted);
  for (Operation *op : findOperations(wanted, body, known))
    note(op->getOperands());
  return read;
}
