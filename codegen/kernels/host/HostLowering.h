// One phase ==> one host function: what LowerToHost and SweepToHost share.
#ifndef ALTGRAD_CODEGEN_HOSTLOWERING_H
#define ALTGRAD_CODEGEN_HOSTLOWERING_H

#include "codegen/Target.h"
#include "codegen/kernels/Reductions.h"
#include "codegen/kernels/Scalars.h"
#include "codegen/kernels/SweepBody.h"
#include "codegen/kernels/host/WordSweep.h"

namespace altgrad {

constexpr unsigned laneBytes = 4;

// The partial sums of one reduction, in memory: lane = element mod 256, or mod
// fewer where order is free.
struct Lanes {
  Reduction kind;
  unsigned chunkWord;
  int64_t count;
  mlir::Value memory;
};

// How the sums of a reduction go from row to row: of its vectors the first are in
// registers, which begin at `first` among a loop's values.
struct Carried {
  Lanes lanes;
  size_t vectors, first, registers;
  llvm::SmallVector<mlir::Value> verdicts = {}; // of a row
};

// A chunk on its way through a sweep.
struct HostChunk {
  SweepOp sweep;
  llvm::ArrayRef<Lanes> lanes;
  /// Where its streams lie.
  llvm::SmallVector<mlir::Value> loads = {}, stores = {};
  /// Scalars, and reductions of the block in work.
  mlir::IRMapping known = {};
  /// What that block has in streams stored per block.
  mlir::IRMapping shared = {};
  /// The global index of the first element; null if nobody asks.
  mlir::Value base = {};
};

class HostLowering {
public:
  HostLowering(StepOp step, const Target &target)
      : step(step), target(target),
        builder(step.getLoc(), step.getContext()) {
    builder.setInsertionPoint(step);
  }
  void lower(PhaseOp phase);

private:
  // SweepToHost.cpp
  void lowerSweep(KernelBuilder &kernel, SweepOp sweep, mlir::Value begin,
                  mlir::Value end);
  void sweepChunk(KernelBuilder &kernel, SweepOp sweep, mlir::Value chunk,
                  llvm::ArrayRef<Lanes> lanes, WordSweep *words);
  void elements(KernelBuilder &kernel, HostChunk &chunk, mlir::Region &body,
                int64_t width, mlir::Value from, mlir::Value to);
  llvm::SmallVector<mlir::Value> load(KernelBuilder &kernel, HostChunk &chunk,
                                      mlir::Region &body, int64_t width,
                                      mlir::Value index, bool prefetch);
  mlir::Value indexOf(HostChunk &chunk, mlir::Value index);
  llvm::SmallVector<mlir::Value> compute(HostChunk &chunk, mlir::Region &body,
                                         llvm::SmallVector<mlir::Value> loaded,
                                         mlir::Value index);
  void blocks(KernelBuilder &kernel, HostChunk &chunk, mlir::Value count);
  void loadShared(KernelBuilder &kernel, HostChunk &chunk, mlir::Value from);
  void reduceBlock(KernelBuilder &kernel, HostChunk &chunk, mlir::Region &body,
                   int64_t width, mlir::Value from, mlir::Value to);

  // RowSums.cpp
  static bool sumsByRows(SweepOp sweep);
  llvm::SmallVector<Carried> carry(const HostChunk &chunk);
  void askForRow(KernelBuilder &kernel, HostChunk &chunk, mlir::Value row);
  void askAgain(KernelBuilder &kernel, HostChunk &chunk, mlir::Value index,
                int64_t elements);
  void rows(KernelBuilder &kernel, HostChunk &chunk, mlir::Value end);
  void add(KernelBuilder &kernel, llvm::SmallVector<mlir::Value> &sums,
           llvm::MutableArrayRef<Carried> carried, size_t vector,
           llvm::ArrayRef<mlir::Value> emitted);
  void leave(KernelBuilder &kernel, const Carried &one,
             llvm::ArrayRef<mlir::Value> registers, bool halves);

  // LowerToHost.cpp
  void lowerFolds(KernelBuilder &kernel, PhaseOp phase, mlir::Value begin,
                  mlir::Value end);
  mlir::Value fold(KernelBuilder &kernel, const Lanes &lanes, Row row);
  Lanes makeLanes(KernelBuilder &kernel, Reduction kind, unsigned chunkWord);
  mlir::Value neutralVector(const Lanes &lanes);
  void clear(KernelBuilder &kernel, const Lanes &lanes, int64_t from = 0);
  mlir::Value total(KernelBuilder &kernel, const Lanes &lanes);
  mlir::Value joinLanes(Reduction kind, mlir::Value vector);
  mlir::Value lane(KernelBuilder &kernel, const Lanes &lanes,
                   mlir::Value index);
  mlir::Value prefetchDistance(KernelBuilder &kernel);

  StepOp step;
  const Target &target;
  mlir::ImplicitLocOpBuilder builder;
  mlir::Value ahead; // bytes, i64: how far ahead a sweep asks for memory
};

/// Conjunctions of vectors, -1 for true.
mlir::Value both(mlir::ImplicitLocOpBuilder &builder, mlir::Value before,
                 mlir::Value value);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_HOSTLOWERING_H
