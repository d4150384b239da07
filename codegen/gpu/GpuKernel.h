// The kernel in work: its threads, its shared memory, and how it overlaps with other launches.
#ifndef ALTGRAD_CODEGEN_GPU_GPUKERNEL_H
#define ALTGRAD_CODEGEN_GPU_GPUKERNEL_H

#include "codegen/abi/Launches.h"
#include "codegen/common/Reductions.h"
#include "codegen/gpu/KernelResources.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace altgrad {

constexpr int64_t warpsPerBlock = ALTGRAD_BLOCK_THREADS / warpThreads;

/// The kernel of one phase: the thread's place in its warp, its block and the grid, and what the threads of a warp or
/// of a block do together.
class GpuKernel {
public:
  /// At the function's entry, whose arguments are altgrad_args and the items.
  GpuKernel(KernelBuilder &kernel, const Target &target, PhaseOp phase, mlir::LLVM::LLVMFuncOp function);

  /// Reads the thread's number once more.
  void rereadThread();
  void onFirstThread(function_ref<void()> body); // of a warp
  void barrier();
  /// Of the block's words in shared memory, for small phases.
  Value sharedWord(Value index);

  /// What another thread of the warp has in place of `own`.
  Value shuffle(mlir::NVVM::ShflKind kind, Value own, int32_t by, int32_t clamp = warpThreads - 1);
  /// What the thread has whose number in the warp differs in that bit.
  Value shuffleXor(Value own, int32_t distance);
  /// What the threads of so many neighbouring warps have, or the first of them: each of all threads of the block asks.
  Value combineWarps(Reduction kind, Value own, int64_t count);
  /// What thread 0 has after adding the threads 16, 8, 4, 2, 1 further on.
  Value combineThreads(Reduction kind, Value sum);
  /// The tree of 256 lanes, of which thread t of a warp has t, t + 32, … t + 224.
  Value combineLanes(Reduction kind, SmallVector<Value> lanes);

  /// Whether the launch before may still be running.
  bool mayOverlapPredecessor();
  void waitForLaunches();
  void launchDependents();

  KernelBuilder &kernel;
  CodeBuilder &builder;
  const Target &target;
  PhaseOp phase;
  Value inBlock, inWarp;            // the thread's number, i64
  Value block, blocks, warp, warps; // i64, of the grid
  Value begin, end;                 // items of the phase's domain, i64
  SharedMemory shared;

private:
  Value words, warpWords; // of shared memory
};

/// What emits a part of a kernel.
struct GpuEmitter {
  explicit GpuEmitter(GpuKernel &gpu) : gpu(gpu), kernel(gpu.kernel), builder(gpu.builder), target(gpu.target) {}

  GpuKernel &gpu;
  KernelBuilder &kernel;
  CodeBuilder &builder;
  const Target &target;
};

/// A special register, in 64 bits.
template <typename Register> Value readRegister(CodeBuilder &builder) {
  return builder.extendUnsigned(builder.getI64Type(), Register::create(builder, builder.getI32Type()));
}
/// Reads one once more: its value would be a register through the whole sweep otherwise.
Value rereadRegister(CodeBuilder &builder, StringRef name);
/// 64 bits, whose origin LLVM does not know.
Value launderPointer(CodeBuilder &builder, Value value);
/// What one of two branches makes of `carried`; without a second it is kept.
SmallVector<Value> ifElse(CodeBuilder &builder, Value condition, SmallVector<Value> carried,
                          function_ref<SmallVector<Value>(SmallVector<Value>)> yes,
                          function_ref<SmallVector<Value>(SmallVector<Value>)> no = {});

/// A kernel without a body.
mlir::LLVM::LLVMFuncOp makeKernel(CodeBuilder &builder, StringRef name, ArrayRef<Type> parameters);

/// Kernels for the symmetric products of steps in formats of 16 bits: C = alpha A Bᵀ + beta D, where A Bᵀ and D are
/// symmetric, as products.h has them for the runtime. Of each result, blocks compute the tiles with numbers on or below
/// the diagonal, and store each twice.
void makeProductKernels(mlir::gpu::GPUModuleOp kernels, ArrayRef<StepOp> steps, const Target &target);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPU_GPUKERNEL_H
