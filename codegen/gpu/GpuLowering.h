// One phase ==> one CUDA kernel: what LowerToGPU and SweepToGPU share.
#ifndef ALTGRAD_CODEGEN_GPULOWERING_H
#define ALTGRAD_CODEGEN_GPULOWERING_H

#include "codegen/common/Columns.h"
#include "codegen/common/Scalars.h"
#include "codegen/gpu/ThreadSums.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace altgrad {

class GpuLowering {
public:
  GpuLowering(StepOp step, const Target &target, mlir::Block *kernels);
  void lower(PhaseOp phase);

private:
  /// What is computed of each element for a reduction over its block and once more
  /// for the body, in every wide body, and where the thread keeps it meanwhile.
  struct Kept {
    unsigned reduction;
    llvm::SmallVector<mlir::Value> values;
    mlir::Value slots;
  };
  /// One chunk on its way through a sweep. A thread does `width` neighbouring
  /// elements at a time, as vectors.
  struct Chunk {
    SweepOp sweep;
    ThreadSums sums;
    int64_t threads; // that share it: a warp or a block
    int64_t width;
    mlir::Value count = {}; // elements, i32
    /// The thread's first element, from the chunk's end: negative.
    mlir::Value from = {};
    mlir::Value aligned = {};   // i1: all streams
    /// The global index after the chunk's last element; null if nobody asks.
    mlir::Value end = {};
    mlir::IRMapping known = {}; // scalars
    /// i64; null where nothing is drawn.
    mlir::Value tag = {};
    /// Which of the thread's elements the words that were drawn begin with,
    /// where they wait, and the words where there is no room for that.
    int64_t drawnFrom = -1;
    mlir::Value waiting = {};
    /// Where `end` and what is fixed of every draw's counter and key lie; null
    /// where there is no room.
    mlir::Value fixed = {};
    llvm::SmallVector<mlir::Value> drawn = {};
    /// Where the thread's next element of each stream lies.
    llvm::MapVector<mlir::Value, mlir::Value> pointers = {};
    /// Where threads exchange values of blocks: minus the elements of the
    /// chunk, and the thread's first element in the warp's. All threads have
    /// the same loop.
    mlir::Value start = {}, mine = {};
    /// What the elements in work share of streams stored per block.
    mlir::IRMapping shared = {};
    llvm::SmallVector<Kept> kept = {};
    /// Of each stream the words of its accesses, where all are loaded at once.
    llvm::SmallVector<llvm::SmallVector<mlir::Value>> ahead = {};
    unsigned vectors() const { return width / SweepOp(sweep).getWidth(); }
    bool exchanges() const { return bool(start); }
  };
  using Carried = ThreadSums::Carried;

  // SweepToGPU.cpp
  void lowerSweep(KernelBuilder &kernel, SweepOp sweep);
  void sweepChunk(KernelBuilder &kernel, ThreadMemory &memory, SweepOp sweep,
                  mlir::Value index);
  std::pair<Row, mlir::Value> placeOf(KernelBuilder &kernel, mlir::Value index);
  Chunk openChunk(KernelBuilder &kernel, ThreadMemory &memory, SweepOp sweep,
                  mlir::Value index);
  mlir::Value walk(KernelBuilder &kernel, Chunk &chunk, Carried &sums,
                   mlir::Value from, mlir::Value to, int32_t elements,
                   llvm::function_ref<Carried(mlir::Value, Carried)> body);
  void sweepAlone(KernelBuilder &kernel, Chunk &chunk, mlir::Value index,
                  Carried &sums);
  /// `part`: of the 256 lanes, which a warp visits in turn.
  static unsigned partsOf(const Chunk &chunk) {
    return SweepOp(chunk.sweep).getNumResults()
               ? ALTGRAD_LANES / (chunk.threads * chunk.width)
               : 1;
  }
  Carried vectorsAt(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                    Carried carried, unsigned part);
  Carried vectorsInside(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                        Carried carried, unsigned part);
  /// The global index of the element `further` after `at`, or null.
  mlir::Value indexOf(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                      int64_t further);
  mlir::Value address(KernelBuilder &kernel, Chunk &chunk, mlir::Value tensors,
                      int64_t element);

  // Elements.cpp
  mlir::Value vectorsFrom(KernelBuilder &kernel, Chunk &chunk);
  mlir::Value leftOver(KernelBuilder &kernel, Chunk &chunk);
  mlir::Value elementsFrom(KernelBuilder &kernel, Chunk &chunk, mlir::Value at);
  void reopen(KernelBuilder &kernel, Chunk &chunk, mlir::Value index,
              mlir::Value from);
  mlir::Value loadApart(KernelBuilder &kernel, Chunk &chunk,
                        mlir::Value tensors, int64_t number,
                        mlir::VectorType type);
  mlir::Value vectorsApart(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                           Carried &carried, unsigned first, unsigned vectors);
  int64_t elementsOfGroup(const Chunk &chunk);
  Carried groupAt(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                  Carried carried);
  mlir::Value behind(KernelBuilder &kernel, Chunk &chunk, mlir::Value tensors,
                     int64_t first, mlir::Value offset);
  mlir::Value loadElement(KernelBuilder &kernel, Chunk &chunk,
                          mlir::Value tensors, int64_t first,
                          mlir::Value offset, mlir::Type type);
  Carried oneByOne(KernelBuilder &kernel, Chunk &chunk, mlir::Value from,
                   mlir::Value to, int64_t apart, int64_t first,
                   Carried carried, unsigned lane);

  // Accesses.cpp
  bool readOnly(mlir::Value tensors);
  /// Elements of an access to a stream.
  int64_t periodOf(const Chunk &chunk, mlir::Value tensors);
  mlir::Value isAligned(KernelBuilder &kernel, const Chunk &chunk,
                        mlir::Value tensors, mlir::Value base);
  /// The words of one. `again`: not those that were loaded before.
  mlir::Value loadAccess(KernelBuilder &kernel, Chunk &chunk,
                         mlir::Value tensors, int64_t element,
                         bool again = false);

  // KeptValues.cpp
  void allocateKept(KernelBuilder &kernel, Chunk &chunk, ThreadMemory &memory);
  /// Where a thread keeps the value of its vector `number`.
  mlir::Value slotOf(KernelBuilder &kernel, const Kept &kept, unsigned number,
                     unsigned width);
  /// What `count` reductions keep.
  static llvm::SmallVector<Kept> keptBy(const Chunk &chunk, unsigned reduction,
                                        unsigned count);
  /// How many reductions from this one on may be done at once: what they read is
  /// loaded once then. One where nothing is kept: they would have more registers.
  static unsigned reducedTogether(const Chunk &chunk, unsigned first);
  /// Loads what the body has of the streams, of all accesses before the first use.
  void loadAhead(KernelBuilder &kernel, Chunk &chunk, int64_t first);
  /// What is known in a body of the thread's vector `number`.
  mlir::IRMapping knownOf(KernelBuilder &kernel, const Chunk &chunk,
                          mlir::Region &body, unsigned number);

  // Draws.cpp
  /// The draws of a vector of neighbours, `element` behind the thread's first.
  llvm::SmallVector<mlir::Value> drawVector(KernelBuilder &kernel, Chunk &chunk,
                                            mlir::Region &body, mlir::Value at,
                                            int64_t element);
  /// Those of an element, or of a vector of elements that lie `apart`.
  llvm::SmallVector<mlir::Value> drawApart(Chunk &chunk, mlir::Region &body,
                                           mlir::Value index, int64_t apart);
  void drawAhead(KernelBuilder &kernel, Chunk &chunk, mlir::Region &body,
                 llvm::ArrayRef<mlir::Value> indices);
  llvm::SmallVector<mlir::Value> takeDraws(KernelBuilder &kernel, Chunk &chunk,
                                           mlir::Region &body, int64_t first);
  void keepDraw(KernelBuilder &kernel, Chunk &chunk, int64_t first,
                llvm::ArrayRef<mlir::Value> words);
  mlir::Value drawnWord(KernelBuilder &kernel, Chunk &chunk, int64_t word);
  void allocateDraws(KernelBuilder &kernel, Chunk &chunk, ThreadMemory &memory);
  std::pair<mlir::Value, mlir::Value> fixedOf(Chunk &chunk, DrawOp draw);
  mlir::Value fixedAt(Chunk &chunk, unsigned entry);
  llvm::SmallVector<mlir::Value> call(Chunk &chunk, DrawOp draw,
                                      mlir::Value index);

  // Guard.cpp
  /// Vectors that a quick body does before its guard is asked; 1 without one.
  unsigned vectorsOfGuard(Chunk &chunk);
  /// What they emit, from vector `number` on. `words`: of each load's last access.
  llvm::SmallVector<llvm::SmallVector<mlir::Value>>
  vectorsUnderGuard(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                    int64_t first, unsigned number,
                    llvm::SmallVector<mlir::Value> &words);
  llvm::SmallVector<mlir::Value>
  loadVector(KernelBuilder &kernel, Chunk &chunk,
             llvm::SmallVector<mlir::Value> &words, int64_t first,
             unsigned number, bool again);

  // RowsAhead.cpp
  int64_t rowsAhead(const Chunk &chunk);
  mlir::Value elementsInGroups(KernelBuilder &kernel, Chunk &chunk,
                               int64_t rows);
  Carried rowsAt(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                 Carried carried, int64_t rows);

  // SharedScalars.cpp
  unsigned waitingWords(Chunk &chunk);
  unsigned residentOf(Chunk &chunk);
  void storeScalars(KernelBuilder &kernel, Chunk &chunk, ThreadMemory &memory);

  // Packing.cpp
  mlir::Value slice(mlir::Value tensors, mlir::Value words,
                    mlir::VectorType codes, unsigned number);
  llvm::SmallVector<mlir::Value> pack(mlir::Value tensors,
                                      llvm::ArrayRef<mlir::Value> vectors);

  // BlocksToGPU.cpp
  Carried threadInBlock(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                        Carried carried, unsigned part);
  /// Whether the thread is the first of its block.
  mlir::Value leads(KernelBuilder &kernel, Chunk &chunk, unsigned block);
  void loadShared(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                  unsigned part);
  mlir::Value fromFirst(KernelBuilder &kernel, Chunk &chunk, mlir::Value code,
                        unsigned block);
  void reduceBlocks(KernelBuilder &kernel, Chunk &chunk, mlir::Value at,
                    unsigned part);
  llvm::SmallVector<mlir::Value> loadAlone(KernelBuilder &kernel, Chunk &chunk,
                                           int64_t element);
  llvm::SmallVector<mlir::Value> reduceOwn(KernelBuilder &kernel, Chunk &chunk,
                                           mlir::Value at, unsigned part,
                                           unsigned reduction, unsigned count);
  mlir::Value joinBlock(KernelBuilder &kernel, Chunk &chunk, ReduceOp reduce,
                        mlir::Value own);

  mlir::Value exchanged(KernelBuilder &kernel, mlir::Value own, int32_t distance);
  /// What another thread of the warp has in place of `own`.
  mlir::Value shuffled(KernelBuilder &kernel, mlir::NVVM::ShflKind kind,
                       mlir::Value own, int32_t by,
                       int32_t clamp = warpThreads - 1);

  // TilesToGPU.cpp
  /// What waits for the columns of a tile, or for its largest, and shared memory: of
  /// the tile's numbers, and of what each thread finds in half a column.
  struct TileMemory {
    Columns &columns;
    mlir::Value tile, halves;
  };
  /// As many rows as a block of threads does at once, and those below them.
  struct TilePart {
    Tile tile;
    mlir::Value first, memory;
  };
  TileMemory makeTile(KernelBuilder &kernel, Columns &columns);
  void sweepTile(KernelBuilder &kernel, ThreadMemory &memory, SweepOp sweep,
                 const TileMemory &shared, mlir::Value index);
  Chunk openPart(KernelBuilder &kernel, ThreadMemory &memory, SweepOp sweep,
                 const TileMemory &shared, const mlir::IRMapping &known, Row row,
                 const TilePart &part);
  mlir::IRMapping scalarsOf(KernelBuilder &kernel, SweepOp sweep, Row row,
                            Tile &tile);
  void somePart(KernelBuilder &kernel, ThreadMemory &memory, SweepOp sweep,
                const TileMemory &shared, Tile tile, mlir::Value index,
                mlir::Value r);
  void inPart(KernelBuilder &kernel, ThreadMemory &memory, SweepOp sweep,
              const TileMemory &shared, const mlir::IRMapping &known, Row row,
              const TilePart &part);
  mlir::Value largestOfBlock(KernelBuilder &kernel, const TileMemory &shared,
                             mlir::Value own);
  mlir::Value largestOfColumn(KernelBuilder &kernel, const TileMemory &shared,
                              mlir::Value own);
  void halfColumn(KernelBuilder &kernel, const TileMemory &shared,
                  const Tile &tile, const mlir::IRMapping &known, Row row,
                  mlir::Value first);

  // SmallPhases.cpp
  /// Who does a small phase, and its items.
  struct Crew {
    mlir::Value block, blocks; // i64
    mlir::Value begin, end;
  };
  /// A tensor's partial sums.
  struct Fold {
    FoldOp op;
    Reduction kind;
    mlir::Type type;
    mlir::Value first, count; // chunks
  };
  using FoldWay = mlir::Value (GpuLowering::*)(KernelBuilder &, const Fold &);
  /// Whether the kernel of a phase needs words of shared memory.
  bool sharesWords(PhaseOp phase);
  void allocateWords();
  mlir::Value sharedWord(KernelBuilder &kernel, mlir::Value index);
  void barrier();
  void lowerSmall(KernelBuilder &kernel, PhaseOp phase, const Crew &crew);
  void lowerFolds(KernelBuilder &kernel, PhaseOp phase, const Crew &crew);
  void foldRow(KernelBuilder &kernel, PhaseOp phase, mlir::Value index,
               mlir::Value keeper, FoldWay way);
  mlir::Value foldFew(KernelBuilder &kernel, const Fold &fold);
  mlir::Value foldByWarp(KernelBuilder &kernel, const Fold &fold);
  mlir::Value foldByBlock(KernelBuilder &kernel, const Fold &fold);
  llvm::SmallVector<mlir::Value> foldLanes(KernelBuilder &kernel,
                                           const Fold &fold, mlir::Value lane,
                                           int64_t perThread);
  mlir::Value partialsFrom(KernelBuilder &kernel, const Fold &fold,
                           mlir::Value index);
  mlir::Value partialAt(KernelBuilder &kernel, const Fold &fold,
                        mlir::Value index);
  mlir::Value orNeutral(KernelBuilder &kernel, const Fold &fold,
                        mlir::Value inside, mlir::Value partial);
  mlir::Value joinLanes(KernelBuilder &kernel, Reduction kind,
                        llvm::SmallVector<mlir::Value> lanes);
  void forEachBit(KernelBuilder &kernel, mlir::Value mask,
                  llvm::function_ref<void(mlir::Value)> body);
  void lowerOnce(KernelBuilder &kernel, PhaseOp phase);
  mlir::Value total(KernelBuilder &kernel, TotalOp op);

  // LastBlock.cpp
  mlir::Value comesLast(KernelBuilder &kernel);
  mlir::Value again(llvm::StringRef name);
  /// 64 bits, whose origin LLVM does not know.
  mlir::Value opaque(mlir::Value value);
  void finish(KernelBuilder &kernel, llvm::ArrayRef<PhaseOp> phases);

  // Overlap.cpp
  void letNextBegin(PhaseOp phase);
  bool waits(PhaseOp phase);
  void waitForLaunches(PhaseOp phase);
  void control(llvm::StringRef what, llvm::StringRef clobbers);

  // LowerToGPU.cpp
  /// What thread 0 has after adding the threads 16, 8, 4, 2, 1 further on.
  mlir::Value joinThreads(KernelBuilder &kernel, Reduction kind,
                          mlir::Value sum);
  /// Adds the upper half of a list to the lower, down to one.
  mlir::Value joinElements(Reduction kind,
                           llvm::SmallVector<mlir::Value> elements);
  llvm::SmallVector<mlir::Value> elementsOf(mlir::Value vector);
  mlir::Value totalOf(KernelBuilder &kernel, Chunk &chunk,
                      const Carried &carried, unsigned result);
  mlir::Value totalInRow(KernelBuilder &kernel, Chunk &chunk,
                         const Carried &carried, unsigned result);
  mlir::Value totalApart(KernelBuilder &kernel, Chunk &chunk,
                         const Carried &carried, unsigned result);
  /// What one of two branches makes of `carried`; without a second it is kept.
  llvm::SmallVector<mlir::Value>
  either(mlir::Value condition, llvm::SmallVector<mlir::Value> carried,
         llvm::function_ref<
             llvm::SmallVector<mlir::Value>(llvm::SmallVector<mlir::Value>)>
             yes,
         llvm::function_ref<
             llvm::SmallVector<mlir::Value>(llvm::SmallVector<mlir::Value>)>
             no = {});
  /// A special register, in 64 bits.
  template <typename Register> mlir::Value special() {
    return mlir::arith::ExtUIOp::create(
        builder, builder.getI64Type(),
        Register::create(builder, builder.getI32Type()));
  }
  void onFirstThread(KernelBuilder &kernel, llvm::function_ref<void()> body);

  StepOp step;
  const Target &target;
  mlir::ImplicitLocOpBuilder builder;
  mlir::Value inBlock, inWarp;     // the thread's number, i64
  mlir::Value block, blocks, warp, warps; // i64, of the grid
  std::optional<SharedMemory> shared; // of the kernel in work
  mlir::Value begin, end; // items of the phase's domain, i64
  unsigned resident = 0;  // blocks on a multiprocessor that ptxas makes room for
  /// Of shared memory, for small phases: of every thread, every warp, the block.
  mlir::Value words;
  static constexpr int64_t warpWord = ALTGRAD_BLOCK_THREADS,
                           blockWord = warpWord + warpsPerBlock,
                           wordCount = blockWord + 1;
};

/// A kernel without a body.
mlir::LLVM::LLVMFuncOp makeKernel(mlir::ImplicitLocOpBuilder &builder,
                                  llvm::StringRef name,
                                  llvm::ArrayRef<mlir::Type> parameters);

/// The kernel that brings numbers to the device (bundle.h), where the steps read any.
void makeValuesKernel(mlir::gpu::GPUModuleOp kernels, llvm::ArrayRef<StepOp> steps);

/// Says in a module of kernels that they wait for other launches.
void markOverlap(mlir::gpu::GPUModuleOp kernels, const Target &target);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPULOWERING_H
