// A sweep ==> a loop over its chunks or tiles.
#ifndef ALTGRAD_CODEGEN_X86_HOSTSWEEP_H
#define ALTGRAD_CODEGEN_X86_HOSTSWEEP_H

#include "codegen/x86/HostTiles.h"
#include "codegen/x86/RowSums.h"

namespace altgrad {

/// A variable of the bundle, which the runtime sets for the CPU it finds.
constexpr llvm::StringLiteral prefetchVariable = "altgrad_prefetch";

/// A sweep, with what its function has on the stack.
class HostSweep : HostEmitter {
public:
  /// At the kernel's entry.
  HostSweep(KernelBuilder &kernel, const Target &target, SweepOp sweep);

  void lower(Value begin, Value end);

private:
  static SmallVector<Lanes> allocateLanes(KernelBuilder &kernel, const Target &target, SweepOp sweep);
  static Value loadPrefetch(KernelBuilder &kernel);
  void lowerChunk(Value index);
  /// The elements of a chunk without blocks.
  void lowerElements(HostChunk &chunk, Value count);

  SmallVector<Lanes> lanes; // of every result
  Value ahead;
  HostDraws draws;
  HostElements elements;
  std::optional<Bf16PairSweep> pairs;
  std::optional<HostBlocks> blocks;
  std::optional<HostTiles> tiles;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_X86_HOSTSWEEP_H
