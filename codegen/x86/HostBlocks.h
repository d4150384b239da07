// Blocks of elements on a host.
#ifndef ALTGRAD_CODEGEN_X86_HOSTBLOCKS_H
#define ALTGRAD_CODEGEN_X86_HOSTBLOCKS_H

#include "codegen/x86/HostChunk.h"

namespace altgrad {

/// A body of a sweep over blocks: its stages, and memory on the stack for what they leave to later ones.
class BlockBody {
public:
  BlockBody(KernelBuilder &kernel, SweepOp sweep, Region &body);

  // `position`: the element's in its block.
  void storeKept(Value value, Value now, Value position) const;
  Value loadKept(Value value, Value position) const;
  // Where it is kept.
  Value slot(Value value, Value position) const;

  // The same of what the elements of a block share, where that is not the largest:
  // a reduction, or what was loaded.
  void storeShared(Value value, Value now, Value position) const;
  Value loadShared(Value value, Value position) const;

  /// The loads that blocks of one size share, by their numbers; and reductions over
  /// them that stages before this one give.
  SmallVector<unsigned> getSharedLoads(unsigned size) const;
  SmallVector<ReduceOp> getEarlierReductions(unsigned stage, unsigned size) const;

  /// What is added over a block has a lane for each element.
  DenseMap<Operation *, Lanes> terms;

  Region &body;
  SmallVector<StageOp> stages;
  /// The sizes of blocks, from the largest on.
  SmallVector<unsigned> sizes;
  /// The stage that reads what lies in memory first.
  unsigned first;

private:
  KernelBuilder &kernel;
  SweepOp sweep;
  DenseMap<Value, Value> memory;
};

/// Block by block: what a block reduces, then what depends on it. Values that are computed before and asked for after
/// wait in the caches, so none is computed twice.
class HostBlocks : HostEmitter {
public:
  /// At the kernel's entry: takes memory on the stack.
  HostBlocks(const HostEmitter &emitter, HostElements &elements);

  /// The last block may be short.
  void lower(HostChunk &chunk, Value count);

private:
  /// A block of elements in work, or of one inside it.
  struct BlockRange {
    unsigned number; // of the stage
    int64_t width;
    Value first, from, to; // `first`: where the largest begins
  };
  void lowerStages(HostChunk &chunk, const BlockBody &body, int64_t width, Value from, Value to);
  void decodeBooks(HostChunk &chunk, const BlockBody &body, Value from, Value to);
  SmallVector<Value> lowerStage(HostChunk &chunk, const BlockBody &body, BlockRange range, ArrayRef<unsigned> sizes,
                                ArrayRef<ReduceOp> outer, SmallVector<Value> most);
  SmallVector<Value> lowerElements(HostChunk &chunk, const BlockBody &body, BlockRange range,
                                   ArrayRef<ReduceOp> reductions, SmallVector<Value> most);
  void loadBlockShared(HostChunk &chunk, const BlockBody &body, const BlockRange &range, unsigned size);

  HostElements &elements;
  BlockBody narrow, wide;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_X86_HOSTBLOCKS_H
