// One phase ==> one CUDA kernel: what LowerToGPU and SweepToGPU share.
#ifndef ALTGRAD_CODEGEN_GPULOWERING_H
#define ALTGRAD_CODEGEN_GPULOWERING_H

#include "codegen/KernelBuilder.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace altgrad {

constexpr int64_t warpLanes = 32;
constexpr int64_t warpsPerBlock = ALTGRAD_BLOCK_THREADS / warpLanes;
constexpr int64_t accessBytes = 16;

/// Elements that a lane computes at once: what the conversions to eight bits
/// take, and few enough for 64 registers.
constexpr int64_t groupWidth = 2;

class GpuLowering {
public:
  GpuLowering(StepOp step, const PhasePlan &plan, mlir::Block *kernels);
  void lower(const Phase &phase);

private:
  /// One chunk on its way through a sweep. A lane does `width` neighbouring
  /// elements at a time, in strips.
  struct Chunk {
    SweepOp sweep;
    mlir::Value from;      // the lane's first element, from the chunk's end: < 0
    mlir::Value aligned;   // i1: all streams
    mlir::IRMapping known; // scalars
    int64_t width;
    /// Where the lane's next element of each stream lies.
    llvm::MapVector<mlir::Value, mlir::Value> pointers;
    unsigned groups() const { return width / groupWidth; }
  };
  /// Partial sums in registers: for each reduction, for each part of the 256
  /// lanes that the warp visits in turn, for each group.
  using Sums = llvm::SmallVector<mlir::Value>;
  struct Place { // in Sums
    unsigned parts, part;
  };

  // SweepToGPU.cpp
  void lowerSweep(KernelBuilder &kernel, SweepOp sweep);
  void sweepChunk(KernelBuilder &kernel, SweepOp sweep, mlir::Value index);
  Chunk openChunk(KernelBuilder &kernel, SweepOp sweep, mlir::Value index);
  Sums laneAt(KernelBuilder &kernel, Chunk &chunk, mlir::Value at, Sums sums,
              Place place);
  Sums vectorsAt(KernelBuilder &kernel, Chunk &chunk, Sums sums, Place place);
  Sums tailAt(KernelBuilder &kernel, Chunk &chunk, mlir::Value at, Sums sums,
              Place place);
  mlir::Value address(KernelBuilder &kernel, Chunk &chunk, mlir::Value tensors,
                      int64_t element);
  mlir::Value slice(mlir::Value words, mlir::VectorType codes, unsigned number);
  llvm::SmallVector<mlir::Value> pack(llvm::ArrayRef<mlir::Value> groups);
  mlir::Value ownGroup(KernelBuilder &kernel, Reduction kind, mlir::Value sum,
                       mlir::Value element, mlir::Value offset, unsigned group);

  // LowerToGPU.cpp
  void lowerFold(KernelBuilder &kernel, const Phase &phase);
  mlir::Value foldRow(KernelBuilder &kernel, const Partial &partial, Row row);
  /// Elements of lane 0 after adding lanes 16, 8, 4, 2, 1 further on.
  mlir::Value joinLanes(KernelBuilder &kernel, Reduction kind, mlir::Value sum);
  /// Adds the upper half of a list to the lower, down to one.
  mlir::Value joinElements(Reduction kind,
                           llvm::SmallVector<mlir::Value> elements);
  llvm::SmallVector<mlir::Value> elementsOf(mlir::Value vector);
  mlir::Value special(llvm::StringRef intrinsic);
  void onFirstLane(KernelBuilder &kernel, llvm::function_ref<void()> body);

  StepOp step;
  const PhasePlan &plan;
  mlir::ImplicitLocOpBuilder builder;
  mlir::Value thread, block, blocks, lane, warp; // i64
  mlir::Value begin, end; // items of the phase's domain, i64
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPULOWERING_H
