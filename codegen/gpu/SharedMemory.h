// The shared memory of a kernel: what may be used of it, and what is.
#ifndef ALTGRAD_CODEGEN_SHAREDMEMORY_H
#define ALTGRAD_CODEGEN_SHAREDMEMORY_H

#include "codegen/Target.h"
#include "codegen/common/KernelBuilder.h"

namespace altgrad {

/// Every byte that the threads of a block share comes from here, so that a kernel never has more than its target.
class SharedMemory {
public:
  SharedMemory(CodeBuilder &builder, mlir::LLVM::LLVMFuncOp kernel, const GpuTuning &tuning)
      : builder(builder), kernel(kernel), tuning(tuning) {}

  /// The bytes that can still be allocated.
  unsigned left() const;
  /// At most `left()` bytes.
  Value allocate(StringRef name, unsigned bytes, unsigned alignment);
  /// Bytes that a later pass allocates.
  void reserve(unsigned bytes) { used += bytes; }
  /// Memory that a launch adds to what the kernel says itself.
  Value allocateDynamic(StringRef name, unsigned bytes, unsigned alignment);

private:
  CodeBuilder &builder;
  mlir::LLVM::LLVMFuncOp kernel;
  const GpuTuning &tuning;
  unsigned used = 0, dynamic = 0;
};

/// A variable in shared memory; of 0 bytes it is what a launch adds.
Value sharedVariable(CodeBuilder &builder, mlir::LLVM::LLVMFuncOp kernel, StringRef name, unsigned bytes,
                     unsigned alignment);

/// Shared memory in which every thread has entries of its own, beside those of
/// its neighbours: there is no barrier, and no bank conflict.
class ThreadMemory {
public:
  /// The builder is at the kernel's outermost block. `inBlock`: the thread's number.
  ThreadMemory(KernelBuilder &kernel, Value inBlock, SharedMemory &shared, const GpuTuning &tuning)
      : kernel(kernel), inBlock(inBlock), shared(shared), limit(tuning.sharedBytes) {}
  /// The entries of `bytes` that every thread can still have, where as many blocks as
  /// possible are to be at home on a multiprocessor.
  unsigned room(unsigned bytes) const;
  /// Makes room for `count` entries all the same; false where there is none.
  bool grow(unsigned count, unsigned bytes);
  /// The first of a thread's entries.
  Value allocate(StringRef name, unsigned count, unsigned bytes);
  /// The distance to the next one.
  static unsigned stride(unsigned bytes) { return ALTGRAD_BLOCK_THREADS * bytes; }

private:
  KernelBuilder &kernel;
  Value inBlock;
  SharedMemory &shared;
  unsigned limit, used = 0;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_SHAREDMEMORY_H
