// Rows of a chunk whose loads all come before the first of their elements is used:
// a warp has no other work while it waits for memory.
#include "codegen/gpu/GpuLowering.h"

#include "mlir/Dialect/Math/IR/Math.h"

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
  SweepOp sweep = chunk.sweep;
  Region &body = sweep.getWide().front();
  int64_t covered = warpThreads * chunk.width, width = sweep.getWidth();
  int64_t parts = ALTGRAD_LANES / covered;
  // Of each part of each row: the words of every stream, in accesses.
  using Words = SmallVector<SmallVector<Value>>;
  SmallVector<Words> all;
  for (int64_t part = 0; part < rows * parts; ++part) {
    Words &words = all.emplace_back();
    for (Value tensors : sweep.getLoads()) {
      words.emplace_back();
      for (int64_t element = 0; element < chunk.width; element += periodOf(chunk, tensors))
        words.back().push_back(loadAccess(chunk, tensors, part * covered + element));
    }
  }
  for (auto [part, words] : llvm::enumerate(all))
    for (unsigned number = 0; number < chunk.vectors(); ++number) {
      int64_t element = number * width;
      SmallVector<Value> loaded;
      for (auto [index, tensors] : llvm::enumerate(sweep.getLoads())) {
        auto type = cast<VectorType>(body.getArgument(index).getType());
        int64_t period = periodOf(chunk, tensors);
        loaded.push_back(slice(tensors, words[index][element / period], type, element % period / width));
      }
      int64_t further = int64_t(part) * covered + element;
      SmallVector<Value> draws = drawVector(chunk, body, at, further);
      SmallVector<Value> emitted =
          cloneSweepBody(builder, body, {loaded, chunk.known, indexOf(chunk, at, further), 1, draws});
      for (unsigned i = 0; i < sweep.getNumResults(); ++i)
        chunk.sums.add(carried, i, part % parts * chunk.vectors() + number, emitted[i]);
    }
  return carried;
}
