// What a lane of a GPU keeps through a chunk: partial sums, and words in shared
// memory.
#ifndef ALTGRAD_CODEGEN_LANESUMS_H
#define ALTGRAD_CODEGEN_LANESUMS_H

#include "codegen/kernels/KernelBuilder.h"
#include "codegen/kernels/Reductions.h"

namespace altgrad {

constexpr int64_t warpLanes = 32;
/// Elements that a lane computes at once: what the conversions to eight bits
/// take, and few enough for 64 registers.
constexpr int64_t groupWidth = 2;

/// Shared memory in which every thread has entries of its own, beside those of
/// its neighbours: there is no barrier, and no bank conflict.
class LaneMemory {
public:
  /// The builder is at the kernel's outermost block.
  LaneMemory(KernelBuilder &kernel, mlir::Value thread);
  /// The entries of `bytes` that every thread can still have.
  unsigned room(unsigned bytes) const;
  /// The first of a thread's entries.
  mlir::Value allocate(llvm::StringRef name, unsigned count, unsigned bytes);
  /// The distance to the next one.
  static unsigned stride(unsigned bytes) {
    return ALTGRAD_BLOCK_THREADS * bytes;
  }

private:
  KernelBuilder &kernel;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Value thread;
  unsigned used = 0;
};

/// In pairs, the elements of a group. A sum has 256 words in the 32 lanes of a
/// warp, four pairs in each. One sum has them in registers, several have them
/// in shared memory as far as there is room.
class LaneSums {
public:
  LaneSums(KernelBuilder &kernel, SweepOp sweep, LaneMemory &memory);

  /// What lies in registers; loops and branches carry it.
  using Carried = llvm::SmallVector<mlir::Value>;
  /// The sums of an empty chunk.
  Carried clear();
  unsigned pairs(unsigned result) const { return sums[result].pairs; }
  mlir::Value pair(const Carried &carried, unsigned result, unsigned number);
  void add(Carried &carried, unsigned result, unsigned number,
           mlir::Value group);
  /// Adds element `offset` of pair `first` and those after it.
  void addElement(Carried &carried, unsigned result, unsigned first,
                  unsigned count, mlir::Value offset, mlir::Value element);

private:
  struct Sum {
    Reduction kind;
    unsigned pairs;
    unsigned at; // in Carried, or among the pairs in shared memory
    bool shared;
  };
  mlir::VectorType pairType(Reduction kind);
  mlir::Value spread(mlir::Value value);
  mlir::Value address(const Sum &sum, unsigned number);

  KernelBuilder &kernel;
  mlir::ImplicitLocOpBuilder &builder;
  llvm::SmallVector<Sum> sums;
  mlir::Value own; // the thread's first pair in shared memory
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_LANESUMS_H
