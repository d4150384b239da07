// The partial sums of a reduction in a host's memory.
#ifndef ALTGRAD_CODEGEN_X86_LANES_H
#define ALTGRAD_CODEGEN_X86_LANES_H

#include "codegen/common/KernelBuilder.h"
#include "codegen/common/Reductions.h"

namespace altgrad {

constexpr unsigned laneBytes = 4;

/// The partial sums of one reduction, in memory: lane = element mod 256, or mod fewer where order is free, as it is
/// where ones and zeros are counted. They are moved as vectors.
class Lanes {
public:
  Lanes() = default;
  Lanes(KernelBuilder &kernel, Reduction kind, int64_t width, int64_t count, Value memory)
      : kind(kind), width(width), count(count), kernel(&kernel), memory(memory) {}
  /// At the kernel's entry: takes memory on the stack. `ordered`: 256 of them, else as many as a vector has.
  static Lanes allocate(KernelBuilder &kernel, Reduction kind, int64_t width, bool ordered);

  /// Where that of an element lies.
  Value at(Value index) const;
  /// `some` of them from `first` on, a multiple of so many.
  Lanes slice(Value first, int64_t some) const { return Lanes(*kernel, kind, width, some, at(first)); }
  Value neutralVector() const;
  /// Makes them neutral from a vector on.
  void clear(int64_t from = 0) const;
  Value total() const;
  /// By the tree of neighbours.
  Value totalOfNeighbours() const;

  Reduction kind;
  int64_t width, count; // of a vector, and of all

private:
  SmallVector<Value> loadVectors() const;

  KernelBuilder *kernel = nullptr;
  Value memory;
};

/// The tree inside one vector.
Value combineLanes(CodeBuilder &builder, Reduction kind, Value vector);
/// Conjunctions of vectors, -1 for true.
Value accumulateAnd(CodeBuilder &builder, Value before, Value value);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_X86_LANES_H
