// A chunk's elements ==> the code of a thread: as vectors, one by one, in blocks that threads share.
#ifndef ALTGRAD_CODEGEN_GPU_CHUNKLOWERING_H
#define ALTGRAD_CODEGEN_GPU_CHUNKLOWERING_H

#include "codegen/gpu/Chunk.h"

namespace altgrad {

using Carried = ThreadSums::Carried;

/// What emits a part of a chunk's code.
struct ChunkEmitter : GpuEmitter {
  ChunkEmitter(GpuKernel &gpu, Chunk &chunk) : GpuEmitter(gpu), chunk(chunk), sweep(chunk.sweep) {}

  Chunk &chunk;
  SweepOp sweep;
};

/// The elements that a thread has side by side, by vectors of the wide body.
class VectorLowering : ChunkEmitter {
public:
  using ChunkEmitter::ChunkEmitter;

  /// `part`: of the 256 lanes, which a warp visits in turn.
  Carried lower(Value at, Carried carried, unsigned part);
  /// The vectors of so many rows, all loads before the first use.
  Carried lowerRows(Value at, Carried carried, int64_t rows);

private:
  SmallVector<Value> compute(Region &body, Value at, int64_t first, unsigned number, ValueRange loaded);
  /// What the vectors under one guard emit, from vector `number` on. `words`: of each load's last access.
  SmallVector<SmallVector<Value>> computeUnderGuard(Value at, int64_t first, unsigned number,
                                                    SmallVector<Value> &words);
};

/// The elements one by one: of streams that are not 16-byte aligned, and what does not fill a vector at a tensor's end.
class ElementLowering : ChunkEmitter {
public:
  using ChunkEmitter::ChunkEmitter;

  /// Where a thread's vectors begin.
  Value getVectorStart();
  /// The bits that the place of any thread behind its vectors has if the chunk is not done.
  Value getRemainderMask();
  /// The first element that a thread does by itself, from the chunk's end, when its vectors have come to `at`.
  Value getElementStart(Value at);
  /// Finds the tensors anew for the elements from `from` on.
  void rematerializePointers(Value index, Value from);
  int64_t getGroupSize();
  /// A group of a thread's elements, each `threads` behind the one before.
  Carried lowerGroup(Value at, Carried carried);
  /// Each goes to its own lane of the partial sums, from that of vector `lane` on; the pointers are `first` elements
  /// before `from`.
  Carried lower(Value from, Value to, int64_t stride, int64_t first, Carried carried, unsigned lane);

private:
  Value lowerStridedVectors(Value at, Carried &carried, unsigned first, unsigned vectors);
};

/// Reductions of blocks of neighbours, each done by a few threads: every thread's over its own elements, then the
/// threads' among themselves.
class BlockReducer : ChunkEmitter {
public:
  using ChunkEmitter::ChunkEmitter;

  /// Makes the reductions of all stages known to the bodies, for the thread's elements from `first` on.
  void reduce(Value at, int64_t first);

private:
  using InsertTerm = function_ref<Value(Value, Value)>;
  /// Of a stage `count` reductions from number `begin` on.
  struct Reduced {
    unsigned stage, begin, count;
  };
  SmallVector<ReduceOp> getReductions(Region &body, Reduced some);
  SmallVector<Value> begin(ArrayRef<ReduceOp> reduces);
  void add(MutableArrayRef<Value> sums, ArrayRef<ReduceOp> reduces, ArrayRef<Value> values, InsertTerm insert);
  SmallVector<Value> finish(SmallVector<Value> sums, ArrayRef<ReduceOp> reduces);
  /// What a thread's own elements give, for some reductions.
  SmallVector<Value> reduceThread(Value at, int64_t first, Reduced some);
  SmallVector<Value> reduceVectors(Value at, int64_t first, Reduced some);
  SmallVector<Value> reduceElements(Value at, int64_t first, Reduced some);
};

/// The thread's way through a chunk that was opened, and what its warp has of the sums then.
class ChunkLowering : ChunkEmitter {
public:
  using ChunkEmitter::ChunkEmitter;

  /// The chunk with this index.
  Carried lower(Value index);
  /// The thread's elements of one round in which threads exchange values of blocks.
  Carried lowerBlocks(Value at, Carried carried, unsigned part);
  Value reduceTotal(const Carried &carried, unsigned result);

private:
  void lowerUnblocked(Value index, Carried &sums);
  Value lowerLoop(Carried &sums, Value from, Value to, int32_t elements, function_ref<Carried(Value, Carried)> body);
  Value totalOfNeighbours(const Carried &carried, unsigned result);
  Value totalOfStrided(const Carried &carried, unsigned result);
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPU_CHUNKLOWERING_H
