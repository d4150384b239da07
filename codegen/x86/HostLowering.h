// One phase ==> one host function: what LowerToHost and SweepToHost share.
#ifndef ALTGRAD_CODEGEN_X86_HOSTLOWERING_H
#define ALTGRAD_CODEGEN_X86_HOSTLOWERING_H

#include "codegen/common/Reductions.h"
#include "codegen/common/Scalars.h"
#include "codegen/common/SweepBody.h"

namespace altgrad {

constexpr unsigned laneBytes = 4;
/// A variable of the bundle, which the runtime sets for the CPU it finds.
constexpr llvm::StringLiteral prefetchVariable = "altgrad_prefetch";

// The partial sums of one reduction, in memory: lane = element mod 256, or mod
// fewer where order is free, as it is where ones and zeros are counted.
struct Lanes {
  Reduction kind;
  unsigned chunkWord;
  int64_t count;
  Value memory;
};

// How the sums of a reduction go from row to row: of its vectors the first are in
// registers, which begin at `first` among a loop's values.
struct Carried {
  Lanes lanes;
  size_t vectors, first, registers;
  SmallVector<Value> verdicts = {}; // of a row
};

// A chunk on its way through a sweep.
struct HostChunk {
  SweepOp sweep;
  ArrayRef<Lanes> lanes;
  /// Where its streams lie.
  SmallVector<Value> loads = {}, stores = {};
  /// Where what each `draw` draws for the first element lies.
  SmallVector<Value> draws = {};
  /// Scalars, and reductions of the block in work.
  IRMapping known = {};
  /// What that block has in streams stored per block.
  IRMapping shared = {};
  /// The global index of the first element; null if nobody asks.
  Value base = {};
  /// Its elements.
  Value count = {};
};

/// A sweep between bf16 streams alone, by the halves of words of 32 bits; where it has two stages, so many elements go
/// through both in turn.
class Bf16PairSweep {
public:
  /// At the kernel's entry: takes memory on the stack.
  Bf16PairSweep(KernelBuilder &kernel, SweepOp sweep, const CpuTuning &tuning, Value ahead);

  /// The elements from 0 to `to`, a multiple of elementsAtOnce().
  void lower(Value to, const HostChunk &chunk);
  int64_t elementsAtOnce() const { return 2 * width; }

private:
  void lowerStage(unsigned number, Value from, Value to, const HostChunk &chunk);

  KernelBuilder &kernel;
  CodeBuilder &builder;
  SweepOp sweep;
  const CpuTuning &tuning;
  Region &body;
  SmallVector<StageOp> stages;
  int64_t width;
  Value ahead;
  SmallVector<Value> stash; // memory of what the first stage keeps
};

/// Asks for the memory `ahead` bytes after `at`.
void prefetchAhead(KernelBuilder &kernel, Value at, Value ahead);

// What waits for the reductions over a tile, where its numbers lie, and where what
// elements of a column share, in rows of a tile's length. Elements of a square share
// one number each; its columns are lanes.
struct HostTile {
  TileSweep sweep;
  Value memory, shared;
  Lanes columns;
};

// Columns of a tile, `width` at a time. `places`: where each store's lie.
struct HostColumns {
  HostTile &work;
  const Tile &tile;
  const IRMapping &known;
  ArrayRef<Value> places, lists; // of what is stored, and of what columns or the square share already
  int64_t width;
};

// A body of a sweep over blocks: its stages, and memory on the stack for what they
// leave to later ones.
class BlockBody {
public:
  BlockBody(KernelBuilder &kernel, SweepOp sweep, Region &body);

  // `place`: the element's in its block.
  void keep(Value value, Value now, Value place) const;
  Value take(Value value, Value place) const;
  // Where it is kept.
  Value slot(Value value, Value place) const;

  // The same of what the elements of a block share, where that is not the largest:
  // a reduction, or what was loaded.
  void keepShared(Value value, Value now, Value place) const;
  Value takeShared(Value value, Value place) const;

  /// The loads that blocks of one size share, by their numbers; and reductions over
  /// them that stages before this one give.
  SmallVector<unsigned> sharedBy(unsigned size) const;
  SmallVector<ReduceOp> reducedBefore(unsigned stage, unsigned size) const;

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

class HostLowering {
public:
  HostLowering(StepOp step, const Target &target)
      : step(step), target(target), builder(step.getLoc(), step.getContext()),
        kernel(builder, step, /*addressSpace=*/0) {
    builder.setInsertionPoint(step);
  }
  void lower(PhaseOp phase);

private:
  // SweepToHost.cpp
  void lowerSweep(SweepOp sweep, Value begin, Value end);
  void sweepChunk(SweepOp sweep, Value chunk, ArrayRef<Lanes> lanes, ArrayRef<BlockBody> bodies, Bf16PairSweep *words);
  void elements(HostChunk &chunk, Region &body, int64_t width, Value from, Value to);
  SmallVector<Value> load(HostChunk &chunk, Region &body, int64_t width, Value index, bool prefetch);
  Value getIndex(HostChunk &chunk, Value index);
  SmallVector<Value> compute(HostChunk &chunk, Region &body, int64_t width, Value index);
  void emit(HostChunk &chunk, size_t which, int64_t width, Value index, Value value);

  // Tiles.cpp
  HostTile makeTile(SweepOp tiles);
  void sweepTile(SweepOp sweep, HostTile *work, Value index, ArrayRef<BlockBody> bodies);
  void reduceTile(HostTile &work, const Tile &tile, const IRMapping &known, Row row, Value first, int64_t width);
  SmallVector<Value> loadLists(const HostColumns &of, Region &body, Value column);
  void run(HostChunk &chunk, ArrayRef<BlockBody> bodies, Value count);
  Value numberAt(const HostColumns &of, Value memory, Value row, Value column);
  Value sharedAt(const HostColumns &of, unsigned number, Value column);
  Value reduceColumn(const HostColumns &of, Value column);
  void shareOfColumns(const HostColumns &of, Value from, Value to);
  void shareOfSquare(const HostColumns &wide, const HostColumns &narrow, Value whole);
  void storeRow(const HostColumns &of, Value row, Value from, Value to);

  // Blocks.cpp
  void blocks(HostChunk &chunk, ArrayRef<BlockBody> bodies, Value count);
  void decodeBooks(HostChunk &chunk, const BlockBody &body, Value from, Value to);
  // A block of elements in work, or of one inside it.
  struct BlockRange {
    unsigned number; // of the stage
    int64_t width;
    Value first, from, to; // `first`: where the largest begins
  };
  SmallVector<Value> getBlocks(HostChunk &chunk, const BlockBody &body, BlockRange range, ArrayRef<unsigned> sizes,
                               ArrayRef<ReduceOp> outer, SmallVector<Value> most);
  SmallVector<Value> blockElements(HostChunk &chunk, const BlockBody &body, BlockRange range,
                                   ArrayRef<ReduceOp> reductions, SmallVector<Value> most);
  void share(HostChunk &chunk, const BlockBody &body, const BlockRange &range, unsigned size);

  // RowSums.cpp
  bool sumsByRows(SweepOp sweep);
  SmallVector<Carried> carry(const HostChunk &chunk);
  void askForRow(HostChunk &chunk, Value row);
  void touchTwice(HostChunk &chunk, Value index, int64_t elements);
  void rows(HostChunk &chunk, Value end);
  void add(SmallVector<Value> &sums, MutableArrayRef<Carried> carried, size_t vector, ArrayRef<Value> emitted);
  void leave(const Carried &one, ArrayRef<Value> registers, bool halves);

  // Draws.cpp
  void allocateDraws(SweepOp sweep);
  void drawAll(HostChunk &chunk, Row row);
  Value fill(DrawOp draw, Value memory, HostChunk &chunk, Row row);
  SmallVector<Value> takeDraws(HostChunk &chunk, Region &body, Value index);

  // LowerToHost.cpp
  void lowerFolds(PhaseOp phase, Value begin, Value end);
  Value fold(const Lanes &lanes, Row row, Value count);
  Lanes makeLanes(Reduction kind, unsigned chunkWord, bool ordered);
  Value neutralVector(const Lanes &lanes);
  void clear(const Lanes &lanes, int64_t from = 0);
  Value total(const Lanes &lanes);
  Value totalOfNeighbours(const Lanes &lanes);
  Value joinLanes(Reduction kind, Value vector);
  Value lane(const Lanes &lanes, Value index);

  StepOp step;
  const Target &target;
  CodeBuilder builder;
  KernelBuilder kernel;     // of the phase in work
  SmallVector<Value> drawn; // memory for each `draw` of the sweep in work
  Value ahead;              // bytes, i64: how far ahead a sweep asks for memory
};

/// The codes of 16 bits of the even and of the odd elements from a place on.
std::pair<Value, Value> loadHalves(KernelBuilder &kernel, Type codes, Value at);
/// Conjunctions of vectors, -1 for true.
Value both(CodeBuilder &builder, Value before, Value value);

/// Whether a thread's stack has room for the draws of a sweep; emits an error if not.
LogicalResult checkDraws(SweepOp sweep, const Target &target);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_X86_HOSTLOWERING_H
