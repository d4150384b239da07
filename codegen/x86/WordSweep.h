// A sweep between bf16 streams alone, by the halves of words of 32 bits; where it has two
// stages, so many elements go through both in turn.
#ifndef ALTGRAD_CODEGEN_WORDSWEEP_H
#define ALTGRAD_CODEGEN_WORDSWEEP_H

#include "codegen/Target.h"
#include "codegen/common/SweepBody.h"

namespace altgrad {

struct HostChunk;

class WordSweep {
public:
  /// At the kernel's entry: takes memory on the stack.
  WordSweep(KernelBuilder &kernel, SweepOp sweep, const CpuTuning &tuning, Value ahead);

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

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_WORDSWEEP_H
