// Sweeps on a host that take their elements otherwise than one vector after the other.
#ifndef ALTGRAD_CODEGEN_X86_ROWSUMS_H
#define ALTGRAD_CODEGEN_X86_ROWSUMS_H

#include "codegen/x86/HostChunk.h"

namespace altgrad {

/// A sweep that only sums: a row of 256 elements after the other, with as many of the sums in registers as there is
/// room for.
class RowSums : HostEmitter {
public:
  /// Whether a sweep is such a one.
  static bool canLower(SweepOp sweep, const Target &target);
  RowSums(const HostEmitter &emitter, HostElements &elements) : HostEmitter(emitter), elements(elements) {}

  /// What the rows below `end`, a multiple of 256, emit, in the lanes' memory.
  void lower(HostChunk &chunk, Value end);

private:
  /// How the sums of a reduction go from row to row: of its vectors the first are in registers, which begin at `first`
  /// among a loop's values.
  struct RowSum {
    Lanes lanes;
    size_t vectors, first, registers;
    SmallVector<Value> verdicts = {}; // of a row

    bool preservesOrder() const { return vectors > 1; }
  };
  SmallVector<RowSum> assignRegisters(const HostChunk &chunk);
  void prefetchRow(const HostChunk &chunk, Value row);
  void touchTwice(const HostChunk &chunk, Value index, int64_t elements);
  void addRow(HostChunk &chunk, Value row, SmallVector<Value> &sums, MutableArrayRef<RowSum> carried);
  void addVector(SmallVector<Value> &sums, MutableArrayRef<RowSum> carried, size_t vector, ArrayRef<Value> emitted);
  void storeSums(const RowSum &one, ArrayRef<Value> registers, bool areEvenOdd);

  HostElements &elements;
};

/// A sweep between bf16 streams alone, by the halves of words of 32 bits; where it has two stages, so many elements go
/// through both in turn.
class Bf16PairSweep : HostEmitter {
public:
  /// At the kernel's entry: takes memory on the stack.
  Bf16PairSweep(const HostEmitter &emitter, Value ahead);

  /// The elements from 0 to `to`, a multiple of elementsAtOnce().
  void lower(Value to, const HostChunk &chunk);
  int64_t elementsAtOnce() const { return 2 * width; }

private:
  void lowerStage(unsigned number, Value from, Value to, const HostChunk &chunk);

  Region &body;
  SmallVector<StageOp> stages;
  int64_t width;
  Value ahead;
  SmallVector<Value> stash; // memory of what the first stage keeps
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_X86_ROWSUMS_H
