// What a thread of a GPU keeps through a chunk: partial sums, and entries in
// shared memory.
#ifndef ALTGRAD_CODEGEN_THREADSUMS_H
#define ALTGRAD_CODEGEN_THREADSUMS_H

#include "codegen/kernels/KernelBuilder.h"
#include "codegen/kernels/Reductions.h"

namespace altgrad {

constexpr int64_t warpThreads = 32;
constexpr int64_t warpsPerBlock = ALTGRAD_BLOCK_THREADS / warpThreads;

/// Bytes that the threads of a block share.
mlir::Value sharedMemory(mlir::ImplicitLocOpBuilder &builder,
                         mlir::LLVM::LLVMFuncOp kernel, llvm::StringRef name,
                         unsigned bytes, unsigned alignment);

/// Shared memory in which every thread has entries of its own, beside those of
/// its neighbours: there is no barrier, and no bank conflict.
class ThreadMemory {
public:
  /// The builder is at the kernel's outermost block. `inBlock`: the thread's
  /// number; `limit`: bytes of all threads.
  ThreadMemory(KernelBuilder &kernel, mlir::Value inBlock, unsigned limit);
  /// The entries of `bytes` that every thread can still have.
  unsigned room(unsigned bytes) const;
  /// Lets `count` more entries in, where all are no more than `most` bytes then.
  bool grow(unsigned most, unsigned count, unsigned bytes);
  /// The first of a thread's entries.
  mlir::Value allocate(llvm::StringRef name, unsigned count, unsigned bytes);
  /// The distance to the next one.
  static unsigned stride(unsigned bytes) {
    return ALTGRAD_BLOCK_THREADS * bytes;
  }

private:
  KernelBuilder &kernel;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Value inBlock;
  unsigned limit, used = 0;
};

/// As vectors of a sweep's wide body. Each of the 32 threads of a warp has
/// eight of the 256 lanes of a sum. One sum has them in registers, several have
/// them in shared memory as far as there is room.
class ThreadSums {
public:
  ThreadSums(KernelBuilder &kernel, SweepOp sweep, ThreadMemory &memory);

  /// What lies in registers; loops and branches carry it.
  using Carried = llvm::SmallVector<mlir::Value>;
  /// The sums of an empty chunk.
  Carried clear();
  unsigned vectors(unsigned result) const { return sums[result].vectors; }
  mlir::Value vector(const Carried &carried, unsigned result, unsigned number);
  void add(Carried &carried, unsigned result, unsigned number,
           mlir::Value elements);
  /// Adds element `offset` of vector `first` and those after it.
  void addElement(Carried &carried, unsigned result, unsigned first,
                  unsigned count, mlir::Value offset, mlir::Value element);

private:
  struct Sum {
    Reduction kind;
    unsigned vectors;
    unsigned at; // in Carried, or among the vectors in shared memory
    bool shared;
  };
  mlir::VectorType vectorType(Reduction kind);
  mlir::Value spread(mlir::Value value);
  mlir::Value address(const Sum &sum, unsigned number);

  KernelBuilder &kernel;
  mlir::ImplicitLocOpBuilder &builder;
  llvm::SmallVector<Sum> sums;
  int64_t width;
  unsigned vectorBytes;
  mlir::Value own; // the thread's first vector in shared memory
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_THREADSUMS_H
