// One phase ==> one host function: what LowerToHost and SweepToHost share.
#ifndef ALTGRAD_CODEGEN_HOSTLOWERING_H
#define ALTGRAD_CODEGEN_HOSTLOWERING_H

#include "codegen/Target.h"
#include "codegen/common/Columns.h"
#include "codegen/common/Reductions.h"
#include "codegen/common/Scalars.h"
#include "codegen/common/SweepBody.h"
#include "codegen/x86/WordSweep.h"

namespace altgrad {

constexpr unsigned laneBytes = 4;

// The partial sums of one reduction, in memory: lane = element mod 256, or mod
// fewer where order is free, as it is where ones and zeros are counted.
struct Lanes {
  Reduction kind;
  unsigned chunkWord;
  int64_t count;
  mlir::Value memory;
};

// How the sums of a reduction go from row to row: of its vectors the first are in
// registers, which begin at `first` among a loop's values.
struct Carried {
  Lanes lanes;
  size_t vectors, first, registers;
  llvm::SmallVector<mlir::Value> verdicts = {}; // of a row
};

// A chunk on its way through a sweep.
struct HostChunk {
  SweepOp sweep;
  llvm::ArrayRef<Lanes> lanes;
  /// Where its streams lie.
  llvm::SmallVector<mlir::Value> loads = {}, stores = {};
  /// Scalars, and reductions of the block in work.
  mlir::IRMapping known = {};
  /// What that block has in streams stored per block.
  mlir::IRMapping shared = {};
  /// The global index of the first element; null if nobody asks.
  mlir::Value base = {};
  /// Its elements.
  mlir::Value count = {};
};

// A sweep over tiles: what waits for their columns, where their numbers do, and
// where what elements of a column share, in rows of a tile's length. Elements of a
// square share one number each.
struct HostTile {
  SweepOp sweep;
  Columns &columns;
  mlir::Value memory, shared;
};

// Columns of a tile, `width` at a time. `places`: where each store's lie.
struct HostColumns {
  HostTile &work;
  const Tile &tile;
  const mlir::IRMapping &known;
  llvm::ArrayRef<mlir::Value> places;
  int64_t width;
};

// A body of a sweep over blocks, cut at their reductions: a value's stage is how many
// of them, one after the other, it waits for.
class BlockStages {
public:
  struct Stage {
    llvm::SmallVector<ReduceOp> reductions; // of its values
    llvm::SmallVector<size_t> emitted;           // operands of the terminator
    llvm::SetVector<mlir::Value> kept;           // that later stages read
  };

  /// `booksFirst`: codes of code books are numbers before all else begins.
  BlockStages(SweepOp sweep, mlir::Region &body, bool booksFirst);
  // Memory for what is kept, on the stack.
  void allocate(KernelBuilder &kernel);
  // `place`: the element's in its block.
  void keep(KernelBuilder &kernel, mlir::Value value, mlir::Value now,
            mlir::Value place) const;
  mlir::Value take(KernelBuilder &kernel, mlir::Value value,
                   mlir::Value place) const;
  // Where it is kept.
  mlir::Value slot(KernelBuilder &kernel, mlir::Value value,
                   mlir::Value place) const;

  // The same of what the elements of a block share, where that is not the largest:
  // a reduction, or what was loaded.
  void keepShared(KernelBuilder &kernel, mlir::Value value, mlir::Value now,
                  mlir::Value place) const;
  mlir::Value takeShared(KernelBuilder &kernel, mlir::Value value,
                         mlir::Value place) const;

  /// The sizes of blocks, from the largest on.
  llvm::ArrayRef<unsigned> getSizes() const { return sizes; }
  /// The loads that blocks of one size share, by their numbers; and reductions over
  /// them that stages before this one give.
  llvm::SmallVector<unsigned> sharedBy(unsigned size) const;
  llvm::SmallVector<ReduceOp> reducedBefore(unsigned stage, unsigned size) const;

  unsigned size() const { return stages.size(); }
  // The stage that reads what lies in memory first.
  unsigned first() const { return booksFirst; }
  const Stage &at(unsigned number) const { return stages[number]; }
  mlir::Region &getBody() const { return body; }

private:
  struct Place {
    unsigned stage = 0;
    bool varies = false; // within a block
  };
  Place placeOf(mlir::Value value) const;
  void keepFor(unsigned stage);

  SweepOp sweep;
  mlir::Region &body;
  bool booksFirst;
  llvm::SmallVector<unsigned> sizes;
  llvm::SmallVector<Stage> stages;
  llvm::DenseMap<mlir::Value, Place> places;
  llvm::DenseMap<mlir::Value, mlir::Value> memory;
};

class HostLowering {
public:
  HostLowering(StepOp step, const Target &target)
      : step(step), target(target),
        builder(step.getLoc(), step.getContext()) {
    builder.setInsertionPoint(step);
  }
  void lower(PhaseOp phase);

private:
  // SweepToHost.cpp
  void lowerSweep(KernelBuilder &kernel, SweepOp sweep, mlir::Value begin,
                  mlir::Value end);
  void sweepChunk(KernelBuilder &kernel, SweepOp sweep, mlir::Value chunk,
                  llvm::ArrayRef<Lanes> lanes,
                  llvm::ArrayRef<BlockStages> bodies, WordSweep *words);
  void elements(KernelBuilder &kernel, HostChunk &chunk, mlir::Region &body,
                int64_t width, mlir::Value from, mlir::Value to);
  llvm::SmallVector<mlir::Value> load(KernelBuilder &kernel, HostChunk &chunk,
                                      mlir::Region &body, int64_t width,
                                      mlir::Value index, bool prefetch);
  mlir::Value indexOf(HostChunk &chunk, mlir::Value index);
  llvm::SmallVector<mlir::Value> compute(HostChunk &chunk, mlir::Region &body,
                                         llvm::SmallVector<mlir::Value> loaded,
                                         mlir::Value index);
  void emit(KernelBuilder &kernel, HostChunk &chunk, size_t which,
            int64_t width, mlir::Value index, mlir::Value value);

  // Tiles.cpp
  HostTile makeTile(KernelBuilder &kernel, Columns &columns, SweepOp sweep);
  void sweepTile(KernelBuilder &kernel, HostTile &work, mlir::Value index,
                 llvm::ArrayRef<BlockStages> bodies);
  void run(KernelBuilder &kernel, HostChunk &chunk,
           llvm::ArrayRef<BlockStages> bodies, mlir::Value count);
  mlir::Value numberAt(KernelBuilder &kernel, const HostColumns &of,
                       mlir::Value memory, mlir::Value row, mlir::Value column);
  mlir::Value sharedAt(KernelBuilder &kernel, const HostColumns &of,
                       unsigned number, mlir::Value column);
  void findLargest(KernelBuilder &kernel, const HostColumns &of,
                   mlir::Value from, mlir::Value to);
  mlir::Value largestOfSquare(KernelBuilder &kernel, const HostColumns &of,
                              mlir::Value from, mlir::Value to);
  void shareOfSquare(KernelBuilder &kernel, const HostColumns &wide,
                     const HostColumns &narrow, mlir::Value whole);
  void storeRow(KernelBuilder &kernel, const HostColumns &of, mlir::Value row,
                mlir::Value from, mlir::Value to);

  // BlockStages.cpp
  void blocks(KernelBuilder &kernel, HostChunk &chunk,
              llvm::ArrayRef<BlockStages> bodies, mlir::Value count);
  void decodeBooks(KernelBuilder &kernel, HostChunk &chunk,
                   const BlockStages &stages, mlir::Value from, mlir::Value to);
  // A block of elements in work, or of one inside it.
  struct BlockRange {
    unsigned number; // of the stage
    int64_t width;
    mlir::Value first, from, to; // `first`: where the largest begins
  };
  llvm::SmallVector<mlir::Value> blocksOf(KernelBuilder &kernel, HostChunk &chunk,
                                          const BlockStages &stages,
                                          BlockRange range,
                                          llvm::ArrayRef<unsigned> sizes,
                                          llvm::ArrayRef<ReduceOp> outer,
                                          llvm::SmallVector<mlir::Value> most);
  llvm::SmallVector<mlir::Value>
  blockElements(KernelBuilder &kernel, HostChunk &chunk, const BlockStages &stages,
                BlockRange range, llvm::ArrayRef<ReduceOp> reductions,
                llvm::SmallVector<mlir::Value> most);
  void share(KernelBuilder &kernel, HostChunk &chunk, const BlockStages &stages,
             const BlockRange &range, unsigned size);

  // RowSums.cpp
  bool sumsByRows(SweepOp sweep);
  llvm::SmallVector<Carried> carry(const HostChunk &chunk);
  void askForRow(KernelBuilder &kernel, HostChunk &chunk, mlir::Value row);
  void askAgain(KernelBuilder &kernel, HostChunk &chunk, mlir::Value index,
                int64_t elements);
  void rows(KernelBuilder &kernel, HostChunk &chunk, mlir::Value end);
  void add(KernelBuilder &kernel, llvm::SmallVector<mlir::Value> &sums,
           llvm::MutableArrayRef<Carried> carried, size_t vector,
           llvm::ArrayRef<mlir::Value> emitted);
  void leave(KernelBuilder &kernel, const Carried &one,
             llvm::ArrayRef<mlir::Value> registers, bool halves);

  // Draws.cpp
  /// A stream of draws, in memory of the kernel.
  struct Drawn {
    mlir::Value stream, seed, step;
    int64_t store, bits;
    mlir::Value memory;
  };
  void makeStreams(KernelBuilder &kernel, SweepOp sweep);
  void dropStreams(SweepOp sweep);
  const Drawn *drawnAs(mlir::Value stream);
  mlir::Value fill(KernelBuilder &kernel, const Drawn &of, HostChunk &chunk,
                   Row row, mlir::Value base, mlir::Value count);

  // LowerToHost.cpp
  void lowerFolds(KernelBuilder &kernel, PhaseOp phase, mlir::Value begin,
                  mlir::Value end);
  mlir::Value fold(KernelBuilder &kernel, const Lanes &lanes, Row row,
                   mlir::Value count);
  Lanes makeLanes(KernelBuilder &kernel, Reduction kind, unsigned chunkWord,
                  bool ordered);
  mlir::Value neutralVector(const Lanes &lanes);
  void clear(KernelBuilder &kernel, const Lanes &lanes, int64_t from = 0);
  mlir::Value total(KernelBuilder &kernel, const Lanes &lanes);
  mlir::Value joinLanes(Reduction kind, mlir::Value vector);
  mlir::Value lane(KernelBuilder &kernel, const Lanes &lanes,
                   mlir::Value index);
  mlir::Value prefetchDistance(KernelBuilder &kernel);

  StepOp step;
  const Target &target;
  mlir::ImplicitLocOpBuilder builder;
  llvm::SmallVector<Drawn> drawn; // of the sweep in work
  mlir::Value ahead; // bytes, i64: how far ahead a sweep asks for memory
};

/// Conjunctions of vectors, -1 for true.
mlir::Value both(mlir::ImplicitLocOpBuilder &builder, mlir::Value before,
                 mlir::Value value);

/// Whether a thread's stack has room for the draws of a sweep; emits an error if not.
mlir::LogicalResult checkDraws(SweepOp sweep, const Target &target);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_HOSTLOWERING_H
