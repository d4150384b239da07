// A chunk on its way through a sweep on a host, and its elements.
#ifndef ALTGRAD_CODEGEN_X86_HOSTCHUNK_H
#define ALTGRAD_CODEGEN_X86_HOSTCHUNK_H

#include "codegen/common/SweepBody.h"
#include "codegen/x86/Lanes.h"

namespace altgrad {

/// A chunk on its way through a sweep.
struct HostChunk {
  ArrayRef<Lanes> lanes;
  /// Where its streams lie.
  SmallVector<Value> loadPointers = {}, storePointers = {};
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

/// What emits a part of a sweep's function.
struct HostEmitter {
  HostEmitter(KernelBuilder &kernel, const Target &target, SweepOp sweep)
      : kernel(kernel), builder(kernel.builder), target(target), sweep(sweep) {}

  KernelBuilder &kernel;
  CodeBuilder &builder;
  const Target &target;
  SweepOp sweep;
};

/// The draws of a sweep: a chunk's are made at once, vectors of calls at a time, and lie in memory in the order of the
/// elements.
class HostDraws : HostEmitter {
public:
  /// At the kernel's entry: takes memory on the stack.
  HostDraws(const HostEmitter &emitter);

  void drawAll(HostChunk &chunk, Row row);
  /// What a copy of the body draws for the element `index`, or for the vector that begins there.
  SmallVector<Value> loadDraws(const HostChunk &chunk, Region &body, Value index);

private:
  Value fill(DrawOp draw, Value memory, const HostChunk &chunk, Row row);

  SmallVector<Value> drawn; // memory for each `draw`
};

/// The elements of a chunk by a copy of a body: loads, what the body computes, sums and stores.
class HostElements : HostEmitter {
public:
  /// `ahead`: how far ahead a sweep asks for memory, in bytes, i64.
  HostElements(const HostEmitter &emitter, HostDraws &draws, Value ahead)
      : HostEmitter(emitter), draws(draws), ahead(ahead) {}

  /// `width` elements at a time from `from` to `to`.
  void lower(HostChunk &chunk, Region &body, int64_t width, Value from, Value to);
  /// Vectors as far as they go, then elements.
  void lower(HostChunk &chunk, Value count);
  /// The codes of the `width` elements from `index` on.
  SmallVector<Value> load(HostChunk &chunk, Region &body, int64_t width, Value index, bool prefetch);
  Value getIndex(const HostChunk &chunk, Value index);
  /// What a body gives as its value `which`: to the sums, or to a stream.
  void emit(HostChunk &chunk, size_t which, int64_t width, Value index, Value value);

  HostDraws &draws;
  Value ahead;

private:
  SmallVector<Value> compute(HostChunk &chunk, Region &body, int64_t width, Value index);
  void addToLanes(const Lanes &lanes, int64_t width, Value index, Value value);
};

/// Asks for the memory `ahead` bytes after `at`.
void prefetchAhead(KernelBuilder &kernel, Value at, Value ahead);
/// The codes of 16 bits of the even and of the odd elements from a place on.
std::pair<Value, Value> loadEvenOdd(KernelBuilder &kernel, Type codes, Value at);
/// Whether a thread's stack has room for the draws of a sweep; emits an error if not.
LogicalResult checkDraws(SweepOp sweep, const Target &target);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_X86_HOSTCHUNK_H
