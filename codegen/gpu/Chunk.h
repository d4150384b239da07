// A chunk on its way through a sweep, and what a thread has of it in registers and in shared memory.
#ifndef ALTGRAD_CODEGEN_GPU_CHUNK_H
#define ALTGRAD_CODEGEN_GPU_CHUNK_H

#include "codegen/gpu/StreamAccess.h"

namespace altgrad {

/// The partial sums that a thread of a GPU keeps through a chunk, as vectors of a sweep's wide body. Each of the 32
/// threads of a warp has eight of the 256 lanes of a sum. One sum has them in registers, several have them in shared
/// memory as far as there is room.
class ThreadSums {
public:
  /// `perThread`: its elements of a round.
  ThreadSums(GpuKernel &gpu, SweepOp sweep, int64_t perThread);

  /// What lies in registers; loops and branches carry it.
  using Carried = SmallVector<Value>;
  /// The sums of an empty chunk.
  Carried clear();
  unsigned vectors(unsigned result) const { return sums[result].vectors; }
  Value vector(const Carried &carried, unsigned result, unsigned number);
  void add(Carried &carried, unsigned result, unsigned number, Value elements);
  /// Adds element `offset` of vector `first` and those after it.
  void addElement(Carried &carried, unsigned result, unsigned first, unsigned count, Value offset, Value element);
  /// Where warps share a chunk, what is added in order waits in shared memory: each thread adds that of its lane at the
  /// end of a round, which begins at `start`, from the chunk's end.
  void addRound(Carried &carried, Value start);
  /// What all threads have then.
  Value totalOfWarps(const Carried &carried, unsigned result);

private:
  struct Sum {
    Reduction kind;
    unsigned vectors;
    unsigned at; // in Carried, or among the vectors in shared memory
    bool shared;
    int order = -1; // among those whose terms wait
  };
  bool areWaiting() const { return llvm::any_of(sums, [](const Sum &sum) { return sum.order >= 0; }); }
  Value getTerm(const Sum &sum, Value from, Value index);
  VectorType vectorType(Reduction kind);
  Value broadcast(Value value);
  Value address(const Sum &sum, unsigned number);

  GpuKernel &gpu;
  KernelBuilder &kernel;
  CodeBuilder &builder;
  SmallVector<Sum> sums;
  int64_t width, perThread;
  unsigned vectorBytes;
  Value own; // the thread's first vector in shared memory
  Value terms, ownTerms; // those of a round, and the thread's first one
};

/// The random bits of a chunk's elements, which are functions of their global indices.
class DrawSource : GpuEmitter {
public:
  /// `known`: the chunk's scalars.
  DrawSource(GpuKernel &gpu, SweepOp sweep, int64_t threads, int64_t width, const IRMapping &known)
      : GpuEmitter(gpu), sweep(sweep), threads(threads), width(width), known(known) {}

  /// Takes shared memory for what is drawn, and for what is fixed of every draw, when `tag` and `end` are there.
  void allocate();
  /// The global index of the element `further` after `at`, or null if nobody asks.
  Value getIndex(Value at, int64_t further);
  /// The thread's next elements are others.
  void restart() { drawnFrom = -1; }
  /// The draws of a vector of neighbours, `element` behind the thread's first.
  SmallVector<Value> drawVector(Region &body, Value at, int64_t element);
  /// Those of an element, or of a vector of elements that lie `stride`.
  SmallVector<Value> drawStrided(Region &body, Value index, int64_t stride);
  /// Those of vectors of elements that lie `threads` apart, before anything is loaded for them.
  void drawAhead(Region &body, ArrayRef<Value> indices);
  /// What the body draws for a vector whose elements are from `first` on.
  SmallVector<Value> getDraws(Region &body, int64_t first);

  /// i64; null where nothing is drawn.
  Value tag = {};
  /// The global index after the chunk's last element; null if nobody asks.
  Value end = {};

private:
  void storeWords(int64_t first, ArrayRef<Value> words);
  Value slot(int64_t word);
  std::pair<Value, Value> getFixed(DrawOp draw);
  Value loadFixed(unsigned entry);
  SmallVector<Value> callPhilox(DrawOp draw, Value index);
  Value drawOne(DrawOp draw, Value index);

  SweepOp sweep;
  int64_t threads, width;
  const IRMapping &known;
  /// Which of the thread's elements the words that were drawn begin with, where they wait, and the words where there is
  /// no room for that.
  int64_t drawnFrom = -1;
  Value waiting;
  SmallVector<Value> drawnWords;
  /// Where `end` and what is fixed of every draw's counter and key lie; null where there is no room.
  Value fixedSlots;
};

/// What a block's reduction and the body behind it both compute of an element, where it comes from a code book: it
/// waits in shared memory. So an element's codes are read and looked up once.
class KeptValues : GpuEmitter {
public:
  KeptValues(GpuKernel &gpu, SweepOp sweep) : GpuEmitter(gpu), sweep(sweep) {}

  void allocate();
  bool empty() const { return values.empty(); }
  /// What a stage of the first wide body keeps, and where thread's vector `number` of them goes.
  SmallVector<Value> getStageValues(unsigned stage) const;
  void store(unsigned stage, unsigned number, ArrayRef<Value> vectors);
  /// What is known in a body of the thread's vector `number`, beside `known`.
  IRMapping load(const IRMapping &known, Region &body, unsigned number);

private:
  /// The number of a stage, the value in every wide body, and where the thread keeps it.
  struct Kept {
    unsigned stage;
    SmallVector<Value> values;
    Value slots;
  };
  Value slot(const Kept &kept, unsigned number);

  SweepOp sweep;
  SmallVector<Kept> values;
};

/// One chunk on its way through a sweep. A thread does `width` neighbouring elements at a time, as vectors.
struct Chunk {
  Chunk(GpuKernel &gpu, SweepOp sweep, int64_t threads);
  Chunk(const Chunk &) = delete;

  unsigned vectors() { return width / sweep.getWidth(); }
  bool isBlockwise() const { return bool(start); }
  /// Of the 256 lanes, which a warp visits in turn.
  unsigned countParts() {
    return sweep.getNumResults() && threads == warpThreads ? ALTGRAD_LANES / (threads * width) : 1;
  }
  /// How many rows, of 256 elements, are loaded before the first of them is used.
  int64_t rowsAhead(const GpuTuning &tuning);
  /// Puts uniform numbers in shared memory.
  void storeScalars(GpuKernel &gpu);

  SweepOp sweep;
  int64_t threads; // that share it: a warp or a block
  int64_t width;
  Value count = {}; // elements, i32
  /// The thread's first element, from the chunk's end: negative.
  Value from = {};
  Value aligned = {}; // i1: all streams
  /// Where threads exchange values of blocks: minus the elements of the chunk, and the thread's first element in the
  /// warp's. All threads have the same loop.
  Value start = {}, threadOffset = {};
  IRMapping known = {}; // scalars, and reductions of blocks
  ThreadSums sums;
  StreamAccess streams;
  DrawSource draws;
  KeptValues kept;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPU_CHUNK_H
