// How a thread reads the streams of a sweep.
#ifndef ALTGRAD_CODEGEN_GPU_STREAMACCESS_H
#define ALTGRAD_CODEGEN_GPU_STREAMACCESS_H

#include "codegen/gpu/GpuKernel.h"

namespace altgrad {

/// A thread's accesses to the streams of a sweep: of 16 bytes where its elements are neighbours, of single codes where
/// they lie apart, and of what the elements of a block share.
class StreamAccess : GpuEmitter {
public:
  /// The words of a stream's accesses, for each load of a sweep.
  using Words = SmallVector<SmallVector<Value>>;

  /// `threads` share a chunk, and each does `width` neighbours at a time.
  StreamAccess(GpuKernel &gpu, SweepOp sweep, int64_t threads, int64_t width)
      : GpuEmitter(gpu), sweep(sweep), threads(threads), width(width) {}

  /// Whether accesses to a tensor that begins there are as wide as they could be.
  Value isAligned(Value tensors, Value base);
  Value address(Value tensors, int64_t element);
  /// Where the element `offset` behind the thread's `first` lies, or what its block shares.
  Value address(Value tensors, int64_t first, Value offset);
  /// Whether the thread is the first of its block of elements.
  Value isBlockLeader(unsigned block);
  /// Asks for what the block loads first, from the row's element `first` up to its last.
  void prefetchRow(Value first, Value last);

  /// Loads what blocks share, for the elements from `first` on, of which the thread's begins at `at`.
  void loadShared(Value at, int64_t first);
  /// The words of the streams in `read` for the thread's elements from `first` on.
  Words loadAccesses(int64_t first, const llvm::BitVector &read);
  /// What the body takes of all streams: for vector `number` of those from `first` on, whose accesses' last words are
  /// `words`. `reload`: not those that were loaded before.
  SmallVector<Value> loadVector(SmallVector<Value> &words, int64_t first, unsigned number, bool reload);
  /// The same with an access for the vector alone, which LLVM joins.
  SmallVector<Value> loadSeparateVector(int64_t element);
  /// For vector `number` of elements that lie `threads` apart.
  SmallVector<Value> loadStrided(Region &body, int64_t number);
  SmallVector<Value> loadElement(int64_t first, Value offset);

  /// Where the thread's next element of each stream lies.
  MapVector<Value, Value> pointers = {};
  /// Where all accesses come before the first use.
  Words ahead = {};

private:
  int64_t getPeriod(Value tensors) { return altgrad::getPeriod(sweep, tensors, target.gpu); }
  bool isReadOnly(Value tensors);
  Value loadAccess(Value tensors, int64_t element, bool reload = false);
  Value broadcastFromLeader(Value code, unsigned block);

  SweepOp sweep;
  int64_t threads, width;
  /// What the elements in work share of streams stored per block.
  IRMapping shared;
};

/// Words of 32 bits from the codes of one vector, or of those that share a word.
SmallVector<Value> packVectors(CodeBuilder &builder, Value tensors, ArrayRef<Value> vectors);
/// What blocks share, where a condition holds, and 0 elsewhere.
Value loadIf(KernelBuilder &kernel, Value condition, Type type, Value tensors, function_ref<Value()> at);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_GPU_STREAMACCESS_H
