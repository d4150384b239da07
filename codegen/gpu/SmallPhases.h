// What lies between sweeps: folds and scalars.
#ifndef ALTGRAD_CODEGEN_GPU_SMALLPHASES_H
#define ALTGRAD_CODEGEN_GPU_SMALLPHASES_H

#include "codegen/common/Scalars.h"
#include "codegen/gpu/GpuKernel.h"

namespace altgrad {

/// Who does a small phase, and its items.
struct WorkerRange {
  Value block, blocks; // i64
  Value begin, end;
};

/// The sums over the chunks of each tensor: by one thread where there are few, else by a warp or a block.
class FoldLowering : GpuEmitter {
public:
  FoldLowering(GpuKernel &gpu, PhaseOp phase) : GpuEmitter(gpu), phase(phase) {}

  void lower(const WorkerRange &workers);

private:
  /// A tensor's partial sums.
  struct Fold {
    FoldOp op;
    Reduction kind;
    Type type;
    Row row;
    Value first, count; // chunks
  };
  using FoldMethod = Value (FoldLowering::*)(const Fold &);
  void foldRow(Value index, Value isLeader, FoldMethod method);
  Value foldByThread(const Fold &fold);
  Value foldByWarp(const Fold &fold);
  Value foldByBlock(const Fold &fold);
  SmallVector<Value> foldLanes(const Fold &fold, Value lane, int64_t perThread);
  Value getPartialPointer(const Fold &fold, Value index);
  Value loadPartial(const Fold &fold, Value index);
  Value selectOrNeutral(const Fold &fold, Value inside, Value partial);
  void forEachBit(Value mask, function_ref<void(Value)> body);
  Value ballot(Value vote);

  PhaseOp phase;
};

/// Phases that a grid does, or the last block of the launch before them.
class SmallPhases : GpuEmitter {
public:
  using GpuEmitter::GpuEmitter;

  void lower(PhaseOp phase, const WorkerRange &workers);
  /// What the last block of the launch does.
  void lowerEpilogue(ArrayRef<PhaseOp> phases);

private:
  void lowerOnce(PhaseOp phase);
  Value total(TotalOp op);
  Value isLastBlock();
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPU_SMALLPHASES_H
