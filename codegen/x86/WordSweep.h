// A sweep between bf16 streams alone, as AVX2 does it best: by the halves of
// words of 32 bits, and the last division in a pass of its own.
#ifndef ALTGRAD_CODEGEN_WORDSWEEP_H
#define ALTGRAD_CODEGEN_WORDSWEEP_H

#include "codegen/Target.h"
#include "codegen/common/KernelBuilder.h"

namespace altgrad {

class WordSweep {
public:
  static bool fits(SweepOp sweep, const Target &target);
  /// Whether the halves of words are what a sweep had better load.
  static bool takesHalves(SweepOp sweep, const Target &target);
  /// At the kernel's entry: takes memory on the stack.
  WordSweep(KernelBuilder &kernel, SweepOp sweep, const CpuTuning &tuning, Value ahead);

  /// The elements from 0 to `to`, a multiple of elementsAtOnce().
  void lower(Value to, ArrayRef<Value> loadPointers, ArrayRef<Value> storePointers, const IRMapping &known);
  int64_t elementsAtOnce() const { return 2 * width; }

private:
  enum class Pass { First, Last };

  void cut();
  void addOperands(SetVector<Value> &values);
  bool isIn(Pass pass, Value value) const;
  void lowerPass(Pass pass, Value from, Value to, ArrayRef<Value> loadPointers, ArrayRef<Value> storePointers,
                 const IRMapping &known);

  KernelBuilder &kernel;
  CodeBuilder &builder;
  SweepOp sweep;
  const CpuTuning &tuning;
  Block &body;
  int64_t width;
  Value ahead;
  // What each pass computes or loads; the first has everything where there is
  // no second. What varies is not the same for all elements.
  SetVector<Value> varying, first, last;
  SmallVector<Value> crossing; // from the first to the last
  SmallVector<Value> stash;    // memory of each
};

/// Asks for the memory `ahead` bytes after `at`.
void prefetchAhead(KernelBuilder &kernel, Value at, Value ahead);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_WORDSWEEP_H
