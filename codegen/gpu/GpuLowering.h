// One phase ==> one CUDA kernel: what LowerToGPU and SweepToGPU share.
#ifndef ALTGRAD_CODEGEN_GPU_GPULOWERING_H
#define ALTGRAD_CODEGEN_GPU_GPULOWERING_H

#include "codegen/abi/Launches.h"
#include "codegen/common/Reductions.h"
#include "codegen/common/Scalars.h"
#include "codegen/gpu/KernelResources.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

namespace altgrad {

constexpr int64_t warpsPerBlock = ALTGRAD_BLOCK_THREADS / warpThreads;

/// The partial sums that a thread of a GPU keeps through a chunk, as vectors of a sweep's wide body. Each of the 32
/// threads of a warp has eight of the 256 lanes of a sum. One sum has them in registers, several have them in shared
/// memory as far as there is room.
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

class GpuLowering {
public:
  GpuLowering(StepOp step, const Target &target, Block *kernels);
  void lower(PhaseOp phase);

private:
  /// What a stage keeps of each element for later ones: its number, the value in every
  /// wide body, and where the thread keeps it meanwhile.
  struct Kept {
    unsigned stage;
    SmallVector<Value> values;
    Value slots;
  };
  /// One chunk on its way through a sweep. A thread does `width` neighbouring elements at a time, as vectors.
  struct Chunk {
    SweepOp sweep;
    ThreadSums sums;
    int64_t threads; // that share it: a warp or a block
    int64_t width;
    Value count = {}; // elements, i32
    /// The thread's first element, from the chunk's end: negative.
    Value from = {};
    Value aligned = {}; // i1: all streams
    /// The global index after the chunk's last element; null if nobody asks.
    Value end = {};
    IRMapping known = {}; // scalars
    /// i64; null where nothing is drawn.
    Value tag = {};
    /// Which of the thread's elements the words that were drawn begin with,
    /// where they wait, and the words where there is no room for that.
    int64_t drawnFrom = -1;
    Value waiting = {};
    /// Where `end` and what is fixed of every draw's counter and key lie; null where there is no room.
    Value fixed = {};
    SmallVector<Value> drawn = {};
    /// Where the thread's next element of each stream lies.
    MapVector<Value, Value> pointers = {};
    /// Where threads exchange values of blocks: minus the elements of the chunk, and the thread's first element in the
    /// warp's. All threads have the same loop.
    Value start = {}, mine = {};
    /// What the elements in work share of streams stored per block.
    IRMapping shared = {};
    SmallVector<Kept> kept = {};
    /// Of each stream the words of its accesses, where all are loaded at once.
    SmallVector<SmallVector<Value>> ahead = {};
    unsigned vectors() const { return width / SweepOp(sweep).getWidth(); }
    bool exchanges() const { return bool(start); }
  };
  using Carried = ThreadSums::Carried;

  // SweepToGPU.cpp
  void lowerSweep(SweepOp sweep);
  void sweepChunk(SweepOp sweep, Value index);
  Chunk openChunk(SweepOp sweep, Value index);
  Value walk(Chunk &chunk, Carried &sums, Value from, Value to, int32_t elements,
             function_ref<Carried(Value, Carried)> body);
  void sweepAlone(Chunk &chunk, Value index, Carried &sums);
  /// `part`: of the 256 lanes, which a warp visits in turn.
  static unsigned countParts(const Chunk &chunk) {
    return SweepOp(chunk.sweep).getNumResults() ? ALTGRAD_LANES / (chunk.threads * chunk.width) : 1;
  }
  Carried vectorsAt(Chunk &chunk, Value at, Carried carried, unsigned part);
  /// The global index of the element `further` after `at`, or null.
  Value getIndex(Chunk &chunk, Value at, int64_t further);
  Value address(Chunk &chunk, Value tensors, int64_t element);
  int64_t rowsAhead(const Chunk &chunk);
  Carried rowsAt(Chunk &chunk, Value at, Carried carried, int64_t rows);

  // Elements.cpp
  Value vectorsFrom(Chunk &chunk);
  Value leftOver(Chunk &chunk);
  Value elementsFrom(Chunk &chunk, Value at);
  void reopen(Chunk &chunk, Value index, Value from);
  Value loadApart(Chunk &chunk, Value tensors, int64_t number, VectorType type);
  Value vectorsApart(Chunk &chunk, Value at, Carried &carried, unsigned first, unsigned vectors);
  int64_t elementsOfGroup(const Chunk &chunk);
  Carried groupAt(Chunk &chunk, Value at, Carried carried);
  Value behind(Chunk &chunk, Value tensors, int64_t first, Value offset);
  SmallVector<Value> loadElement(Chunk &chunk, int64_t first, Value offset);
  Carried oneByOne(Chunk &chunk, Value from, Value to, int64_t apart, int64_t first, Carried carried, unsigned lane);

  // Accesses.cpp
  bool readOnly(Value tensors);
  Value isAligned(const Chunk &chunk, Value tensors, Value base);
  /// The words of one. `again`: not those that were loaded before.
  Value loadAccess(Chunk &chunk, Value tensors, int64_t element, bool again = false);
  /// Those of the streams in `read` for the thread's elements from `first` on.
  SmallVector<SmallVector<Value>> accessesFrom(Chunk &chunk, int64_t first, const llvm::BitVector &read);
  /// Asks for what the block loads first, from the row's element `first` up to its last.
  void prefetchRow(Chunk &chunk, Value first, Value last);
  Value slice(Value tensors, Value words, VectorType codes, unsigned number);
  SmallVector<Value> pack(Value tensors, ArrayRef<Value> vectors);

  // KeptValues.cpp
  void allocateKept(Chunk &chunk);
  void storeScalars(Chunk &chunk);
  /// Where a thread keeps the value of its vector `number`.
  Value getSlot(const Kept &kept, unsigned number, unsigned width);
  /// Loads what the body has of the streams, of all accesses before the first use.
  void loadAhead(Chunk &chunk, int64_t first);
  /// What is known in a body of the thread's vector `number`.
  IRMapping getKnown(const Chunk &chunk, Region &body, unsigned number);

  // Draws.cpp
  /// The draws of a vector of neighbours, `element` behind the thread's first.
  SmallVector<Value> drawVector(Chunk &chunk, Region &body, Value at, int64_t element);
  /// Those of an element, or of a vector of elements that lie `apart`.
  SmallVector<Value> drawApart(Chunk &chunk, Region &body, Value index, int64_t apart);
  void drawAhead(Chunk &chunk, Region &body, ArrayRef<Value> indices);
  SmallVector<Value> takeDraws(Chunk &chunk, Region &body, int64_t first);
  void keepDraw(Chunk &chunk, int64_t first, ArrayRef<Value> words);
  Value drawnWord(Chunk &chunk, int64_t word);
  void allocateDraws(Chunk &chunk);
  std::pair<Value, Value> getFixed(Chunk &chunk, DrawOp draw);
  Value fixedAt(Chunk &chunk, unsigned entry);
  SmallVector<Value> call(Chunk &chunk, DrawOp draw, Value index);

  // Guard.cpp
  /// What they emit, from vector `number` on. `words`: of each load's last access.
  SmallVector<SmallVector<Value>> vectorsUnderGuard(Chunk &chunk, Value at, int64_t first, unsigned number,
                                                    SmallVector<Value> &words);
  SmallVector<Value> loadVector(Chunk &chunk, SmallVector<Value> &words, int64_t first, unsigned number, bool again);

  // BlocksToGPU.cpp
  Carried threadInBlock(Chunk &chunk, Value at, Carried carried, unsigned part);
  /// Whether the thread is the first of its block.
  Value leads(Chunk &chunk, unsigned block);
  Value codeIf(Value condition, Type type, Value tensors, function_ref<Value()> at);
  void loadShared(Chunk &chunk, Value at, unsigned part);
  Value fromFirst(Chunk &chunk, Value code, unsigned block);
  void reduceBlocks(Chunk &chunk, Value at, unsigned part);
  SmallVector<Value> loadAlone(Chunk &chunk, int64_t element);
  /// Of a stage `count` reductions from number `begin` on.
  struct Reduced {
    unsigned stage, begin, count;
  };
  SmallVector<Value> reduceOwn(Chunk &chunk, Value at, unsigned part, Reduced some);

  Value exchanged(Value own, int32_t distance);
  /// What another thread of the warp has in place of `own`.
  Value shuffled(mlir::NVVM::ShflKind kind, Value own, int32_t by, int32_t clamp = warpThreads - 1);

  // TilesToGPU.cpp
  /// What waits for the columns of a tile, or for its largest, and shared memory: of
  /// the tile's numbers, and of what each thread finds in half a column. Both are null where nothing waits; the sweep
  /// is the only one then.
  struct TileMemory {
    TileSweep sweep;
    Value tile = {}, columnParts = {};
    bool holds(Value stream) const { return tile && stream == sweep.tile(); }
  };
  /// As many rows as a block of threads does at once, and those below them.
  struct TilePart {
    Tile tile;
    Value first, memory;
  };
  TileMemory makeTile(SweepOp tiles);
  void sweepTile(SweepOp sweep, const TileMemory &shared, Value index);
  Chunk openPart(SweepOp sweep, const TileMemory &memory, const IRMapping &known, Row row, const TilePart &part);
  IRMapping getScalars(SweepOp sweep, Row row, Tile &tile);
  void somePart(SweepOp sweep, const TileMemory &shared, Tile tile, Value index, Value r);
  void inPart(SweepOp sweep, const TileMemory &shared, const IRMapping &known, Row row, const TilePart &part);
  Value combineColumnParts(const TileMemory &shared, Value own);
  void reduceColumnPart(const TileMemory &shared, const Tile &tile, const IRMapping &known, Row row, Value first);

  // SmallPhases.cpp
  /// Who does a small phase, and its items.
  struct WorkerRange {
    Value block, blocks; // i64
    Value begin, end;
  };
  /// A tensor's partial sums.
  struct Fold {
    FoldOp op;
    Reduction kind;
    Type type;
    Value first, count; // chunks
  };
  using FoldWay = Value (GpuLowering::*)(const Fold &);
  Value sharedWord(Value index);
  void barrier();
  void lowerSmall(PhaseOp phase, const WorkerRange &crew);
  void lowerFolds(PhaseOp phase, const WorkerRange &crew);
  void foldRow(PhaseOp phase, Value index, Value keeper, FoldWay way);
  Value foldFew(const Fold &fold);
  Value foldByWarp(const Fold &fold);
  Value foldByBlock(const Fold &fold);
  SmallVector<Value> foldLanes(const Fold &fold, Value lane, int64_t perThread);
  Value partialsFrom(const Fold &fold, Value index);
  Value partialAt(const Fold &fold, Value index);
  Value orNeutral(const Fold &fold, Value inside, Value partial);
  Value joinLanes(Reduction kind, SmallVector<Value> lanes);
  void forEachBit(Value mask, function_ref<void(Value)> body);
  void lowerOnce(PhaseOp phase);
  Value total(TotalOp op);

  Value isLastBlock();
  Value rereadRegister(StringRef name);
  /// 64 bits, whose origin LLVM does not know.
  Value launderPointer(Value value);
  void emitEpilogue(ArrayRef<PhaseOp> phases);

  // LowerToGPU.cpp
  /// What thread 0 has after adding the threads 16, 8, 4, 2, 1 further on.
  Value joinThreads(Reduction kind, Value sum);
  /// Adds the upper half of a list to the lower, down to one.
  Value joinElements(Reduction kind, SmallVector<Value> elements);
  SmallVector<Value> splitVector(Value vector);
  Value reduceTotal(Chunk &chunk, const Carried &carried, unsigned result);
  Value totalInRow(Chunk &chunk, const Carried &carried, unsigned result);
  Value totalApart(Chunk &chunk, const Carried &carried, unsigned result);
  /// What one of two branches makes of `carried`; without a second it is kept.
  SmallVector<Value> ifElse(Value condition, SmallVector<Value> carried,
                            function_ref<SmallVector<Value>(SmallVector<Value>)> yes,
                            function_ref<SmallVector<Value>(SmallVector<Value>)> no = {});
  /// A special register, in 64 bits.
  template <typename Register> Value special() {
    return builder.extendUnsigned(builder.getI64Type(), Register::create(builder, builder.getI32Type()));
  }
  void onFirstThread(function_ref<void()> body);
  void launchDependents(PhaseOp phase);
  bool mustWait(PhaseOp phase);
  void waitForLaunches(PhaseOp phase);
  void emitControl(StringRef what, StringRef clobbers);

  StepOp step;
  const Target &target;
  CodeBuilder builder;
  KernelBuilder kernel;               // of the phase in work
  Value inBlock, inWarp;              // the thread's number, i64
  Value block, blocks, warp, warps;   // i64, of the grid
  std::optional<SharedMemory> shared; // of the kernel in work
  Value begin, end;                   // items of the phase's domain, i64
  Value words;                        // of shared memory, for small phases
};

/// A kernel without a body.
mlir::LLVM::LLVMFuncOp makeKernel(CodeBuilder &builder, StringRef name, ArrayRef<Type> parameters);

/// Kernels for the symmetric products of steps in formats of 16 bits: C = alpha A Bᵀ + beta D, where A Bᵀ and D are
/// symmetric, as products.h has them for the runtime. Of each result, blocks compute the tiles with numbers on or below
/// the diagonal, and store each twice.
void makeProductKernels(mlir::gpu::GPUModuleOp kernels, ArrayRef<StepOp> steps, const Target &target);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPU_GPULOWERING_H
