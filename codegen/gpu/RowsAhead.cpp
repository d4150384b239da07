// Rows of a chunk whose loads all come before the first of their elements is used:
// a warp has no other work while it waits for memory.
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// Whether a body needs its registers for itself: it divides, or decodes bytes.
static bool isLong(SweepOp sweep) {
  auto isByte = [](Value tensors) { return bytesOf(tensors) == 1; };
  return llvm::any_of(sweep.getLoads(), isByte) ||
         llvm::any_of(sweep.getBody().front(), [](Operation &op) { return isa<arith::DivFOp, math::SqrtOp>(op); });
}

// A row is 256 elements, eight of every thread.
int64_t GpuLowering::rowsAhead(const Chunk &chunk) {
  constexpr int64_t perThread = ALTGRAD_LANES / warpThreads;
  SweepOp sweep = chunk.sweep;
  if (!sweep.getNumResults() || chunk.exchanges() || !sweep.getStores().empty() || sweep.getLoads().empty() ||
      isLong(sweep))
    return 1;
  int64_t bytes = 0;
  for (Value tensors : sweep.getLoads())
    bytes += perThread * bytesOf(tensors);
  int64_t rows = std::min<int64_t>(target.gpu.bytesAhead / bytes, target.gpu.rowsAhead);
  return rows > 1 ? int64_t(llvm::bit_floor(uint64_t(rows))) : 1;
}

// The elements of the rows in whole groups of `rows`, from the chunk's begin on:
// i32, none where a stream is not aligned.
Value GpuLowering::elementsInGroups(Chunk &chunk, int64_t rows) {
  Value whole = builder.both(chunk.count, kernel.i32(-int32_t(rows * ALTGRAD_LANES)));
  return builder.choose(chunk.aligned, whole, kernel.i32(0));
}

GpuLowering::Carried GpuLowering::rowsAt(Chunk &chunk, Value at, Carried carried, int64_t rows) {
  llvm::BitVector every(chunk.sweep.getLoads().size(), true);
  SmallVector<SmallVector<SmallVector<Value>>> ahead; // of each part of each row
  for (int64_t part = 0; part < rows * partsOf(chunk); ++part)
    ahead.push_back(accessesFrom(chunk, part * warpThreads * chunk.width, every));
  for (auto [part, words] : llvm::enumerate(ahead)) {
    chunk.ahead = words;
    carried = vectorsAt(chunk, at, carried, part);
  }
  return carried;
}
