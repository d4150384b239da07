// The partial sums that a thread of a GPU keeps through a chunk.
#ifndef ALTGRAD_CODEGEN_THREADSUMS_H
#define ALTGRAD_CODEGEN_THREADSUMS_H

#include "codegen/common/Launches.h"
#include "codegen/common/Reductions.h"
#include "codegen/gpu/SharedMemory.h"

namespace altgrad {

constexpr int64_t warpsPerBlock = ALTGRAD_BLOCK_THREADS / warpThreads;

/// As vectors of a sweep's wide body. Each of the 32 threads of a warp has eight of the 256 lanes of a sum. One sum has
/// them in registers, several have them in shared memory as far as there is room.
class ThreadSums {
public:
  ThreadSums(KernelBuilder &kernel, SweepOp sweep, SharedMemory &memory);

  /// What lies in registers; loops and branches carry it.
  using Carried = SmallVector<Value>;
  /// The sums of an empty chunk.
  Carried clear();
  unsigned vectors(unsigned result) const { return sums[result].vectors; }
  Value vector(const Carried &carried, unsigned result, unsigned number);
  void add(Carried &carried, unsigned result, unsigned number, Value elements);
  /// Adds element `offset` of vector `first` and those after it.
  void addElement(Carried &carried, unsigned result, unsigned first, unsigned count, Value offset, Value element);

private:
  struct Sum {
    Reduction kind;
    unsigned vectors;
    unsigned at; // in Carried, or among the vectors in shared memory
    bool shared;
  };
  VectorType vectorType(Reduction kind);
  Value spread(Value value);
  Value address(const Sum &sum, unsigned number);

  KernelBuilder &kernel;
  CodeBuilder &builder;
  SmallVector<Sum> sums;
  int64_t width;
  unsigned vectorBytes;
  Value own; // the thread's first vector in shared memory
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_THREADSUMS_H
