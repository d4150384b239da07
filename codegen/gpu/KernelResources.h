// What a thread does of a sweep at once, what a kernel takes by the attribute of its phase, and its shared memory.
#ifndef ALTGRAD_CODEGEN_GPU_KERNELRESOURCES_H
#define ALTGRAD_CODEGEN_GPU_KERNELRESOURCES_H

#include "codegen/common/SweepBody.h"
#include "codegen/numerics/Philox.h"
#include "codegen/numerics/SharedVariable.h"

namespace altgrad {

/// That share a row of a tile.
constexpr int64_t threadsPerRow = 8;
/// Neighbouring elements that a thread does at once.
int64_t getWidth(SweepOp sweep, const GpuTuning &tuning);
/// Whether it has blocks of elements that several warps share.
bool joinsWarps(SweepOp sweep);
/// Elements of its access to a stream, of 16 bytes at most.
int64_t getPeriod(SweepOp sweep, Value tensors, const GpuTuning &tuning);
/// Vectors that a fast-path body does before its guard is asked; 1 without one.
unsigned getVectorsPerGuard(SweepOp sweep, const GpuTuning &tuning);
/// The loads that a sweep's wide body still uses after the block reductions.
llvm::BitVector loadsAfterReductions(SweepOp sweep);
/// Words of 32 bits that a draw gives so many elements; those of all draws of a body, or of those before `draw`, for as
/// many as a thread draws together.
int64_t countDrawWords(DrawOp draw, int64_t elements = drawGroup);
int64_t countAllDrawWords(Region &body, DrawOp draw = {});
/// The uniform f32 that a sweep computes with and that may wait in shared memory.
SmallVector<Value> getNumbers(SweepOp sweep);
/// Whether the kernel of a phase needs words of shared memory.
bool needsSharedWords(PhaseOp phase);

constexpr unsigned sharedWordBytes = sizeof(float), counterBytes = sizeof(int64_t);
/// The entries of a thread lie beside those of its neighbours: there is no barrier, and no bank conflict.
constexpr unsigned getStride(unsigned bytes) { return ALTGRAD_BLOCK_THREADS * bytes; }

/// Words of a block, for folds and totals: of every thread, every warp, the block.
constexpr int64_t warpWord = ALTGRAD_BLOCK_THREADS, blockWord = warpWord + ALTGRAD_BLOCK_THREADS / 32,
                  wordCount = blockWord + 1;

/// `kernel_resources = {ahead, blocks = 3 : i64, shared = {draws = 8192 : i64, ...}}` on a phase.
struct KernelResources {
  /// The bytes of each variable that a block has in shared memory.
  mlir::NamedAttrList shared = {};
  /// Blocks on a multiprocessor that ptxas makes room for.
  unsigned blocks = 0;
  /// Whether all that is read behind the reductions of blocks is loaded before the first of it is used.
  bool ahead = false;

  unsigned bytes(StringRef variable) const;
  void setOn(PhaseOp phase) const;
  static std::optional<KernelResources> get(PhaseOp phase);
};

/// The variables in shared memory that `altgrad-fit-resources` gives a kernel.
class SharedMemory {
public:
  /// The builder is in the kernel's outermost block. `inBlock`: the thread's number.
  SharedMemory(KernelBuilder &kernel, mlir::LLVM::LLVMFuncOp function, Value inBlock, KernelResources resources)
      : kernel(kernel), function(function), inBlock(inBlock), resources(std::move(resources)) {}

  const KernelResources &plan() const { return resources; }
  /// The entries of `bytes` that each thread has of a variable; 0 without it.
  unsigned entries(StringRef name, unsigned bytes) const { return resources.bytes(name) / getStride(bytes); }
  /// `atLaunch`: a launch adds it to what the kernel says itself.
  Value allocate(StringRef name, unsigned alignment, bool atLaunch = false);
  /// The first of a thread's entries, or null where the variable has no room.
  Value getThreadEntry(StringRef name, unsigned bytes);

private:
  KernelBuilder &kernel;
  mlir::LLVM::LLVMFuncOp function;
  Value inBlock;
  KernelResources resources;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPU_KERNELRESOURCES_H
