// One phase ==> one CUDA kernel: what LowerToGPU and SweepToGPU share.
#ifndef ALTGRAD_CODEGEN_GPULOWERING_H
#define ALTGRAD_CODEGEN_GPULOWERING_H

#include "codegen/kernels/SweepBody.h"

#include "codegen/kernels/Scalars.h"
#include "codegen/kernels/gpu/LaneSums.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace altgrad {

constexpr int64_t warpsPerBlock = ALTGRAD_BLOCK_THREADS / warpLanes;
constexpr int64_t accessBytes = 16;

class GpuLowering {
public:
  GpuLowering(StepOp step, mlir::Block *kernels);
  void lower(PhaseOp phase);

private:
  /// One chunk on its way through a sweep. A lane does `width` neighbouring
  /// elements at a time, in groups.
  struct Chunk {
    SweepOp sweep;
    LaneSums sums;
    int64_t width;
    /// The lane's first element, from the chunk's end: negative.
    mlir::Value from = {};
    mlir::Value aligned = {};   // i1: all streams
    /// The global index after the chunk's last element; null if nobody asks.
    mlir::Value end = {};
    mlir::IRMapping known = {}; // scalars
    /// Where the lane's next element of each stream lies.
    llvm::MapVector<mlir::Value, mlir::Value> pointers = {};
    /// Where lanes exchange values of blocks: minus the elements of the chunk, and
    /// the lane's first element in the warp's. Their loop is the same in all lanes.
    mlir::Value start = {}, mine = {};
    /// What the elements in work share of streams stored per block.
    mlir::IRMapping shared = {};
    unsigned groups() const { return width / groupWidth; }
    bool exchanges() const { return bool(start); }
  };
  using Carried = LaneSums::Carried;

  // SweepToGPU.cpp
  void lowerSweep(KernelBuilder &kernel, SweepOp sweep);
  void sweepChunk(KernelBuilder &kernel, LaneMemory &memory, SweepOp sweep,
                  mlir::Value index);
  Chunk openChunk(KernelBuilder &kernel, LaneMemory &memory, SweepOp sweep,
                  mlir::Value index);
  void storeScalars(KernelBuilder &kernel, Chunk &chunk, LaneMemory &memory);
  mlir::Value totalOf(KernelBuilder &kernel, Chunk &chunk,
                      const Carried &carried, unsigned result);
  /// `part`: of the 256 lanes, which a warp visits in turn.
  Carried laneAt(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                 Carried carried, unsigned part);
  Carried vectorsAt(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                    Carried carried, unsigned part);
  Carried tailAt(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                 Carried carried, unsigned part);
  /// The global index of the element `further` after `at`, or null.
  mlir::Value indexOf(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                      int64_t further);
  mlir::Value address(KernelBuilder &kernel, Chunk &chunk, mlir::Value tensors,
                      int64_t element);
  mlir::Value loadElement(KernelBuilder &kernel, Chunk &chunk,
                          mlir::Value tensors, int64_t first,
                          mlir::Value offset, mlir::Type type);

  // Packing.cpp
  mlir::Value slice(mlir::Value words, mlir::VectorType codes, unsigned number);
  llvm::SmallVector<mlir::Value> pack(llvm::ArrayRef<mlir::Value> groups);

  // BlocksToGPU.cpp
  /// Whether the lane is the first of its block.
  mlir::Value leads(KernelBuilder &kernel, Chunk &chunk);
  void loadShared(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                  unsigned part);
  mlir::Value fromFirst(KernelBuilder &kernel, Chunk &chunk, mlir::Value code);
  void reduceBlocks(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                    unsigned part);
  mlir::Value reduceLane(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                         unsigned part, unsigned number);
  mlir::Value joinBlock(KernelBuilder &kernel, Chunk &chunk, Reduction kind,
                        mlir::Value own);

  // LowerToGPU.cpp
  void lowerFolds(KernelBuilder &kernel, PhaseOp phase);
  mlir::Value foldRow(KernelBuilder &kernel, FoldOp fold, Row row);
  /// Elements of lane 0 after adding lanes 16, 8, 4, 2, 1 further on.
  mlir::Value joinLanes(KernelBuilder &kernel, Reduction kind, mlir::Value sum);
  /// Adds the upper half of a list to the lower, down to one.
  mlir::Value joinElements(Reduction kind,
                           llvm::SmallVector<mlir::Value> elements);
  llvm::SmallVector<mlir::Value> elementsOf(mlir::Value vector);
  mlir::Value special(llvm::StringRef intrinsic);
  void onFirstLane(KernelBuilder &kernel, llvm::function_ref<void()> body);

  StepOp step;
  mlir::ImplicitLocOpBuilder builder;
  mlir::Value thread, block, blocks, lane, warp; // i64
  mlir::Value begin, end; // items of the phase's domain, i64
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPULOWERING_H
