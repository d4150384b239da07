// What a chunk has in shared memory, and how far its loads go ahead.
#include "codegen/gpu/Chunk.h"

using namespace mlir;
using namespace altgrad;

Chunk::Chunk(GpuKernel &gpu, SweepOp sweep, int64_t threads)
    : sweep(sweep), threads(threads), width(getWidth(sweep, gpu.target.gpu)), sums(gpu, sweep, width),
      streams(gpu, sweep, threads, width), draws(gpu, sweep, threads, width, known), kept(gpu, sweep) {}

// The uniform numbers with the fewest uses wait for every use.
void Chunk::storeScalars(GpuKernel &gpu) {
  constexpr unsigned bytes = sizeof(float);
  KernelBuilder &kernel = gpu.kernel;
  SmallVector<Value> numbers = getNumbers(sweep);
  llvm::stable_sort(numbers,
                    [](Value a, Value b) { return llvm::range_size(a.getUses()) < llvm::range_size(b.getUses()); });
  numbers.truncate(gpu.shared.entries("scalars", bytes));
  Value own = gpu.shared.getThreadEntry("scalars", bytes);
  for (auto [i, number] : llvm::enumerate(numbers)) {
    Value to = kernel.offset(own, kernel.i64(i), getStride(bytes));
    kernel.store(known.lookup(number), to, bytes);
    known.map(number, to);
  }
}

// Whether a body needs its registers for itself: it divides, or decodes bytes.
static bool isLong(SweepOp sweep) {
  auto isByte = [](Value tensors) { return getBytes(tensors) == 1; };
  return llvm::any_of(sweep.getLoads(), isByte) ||
         llvm::any_of(sweep.getBody().front(), [](Operation &op) { return isa<arith::DivFOp, math::SqrtOp>(op); });
}

// All loads of a chunk's rows come before the first of their elements is used: a warp has no other work while it waits
// for memory. A row is 256 elements, eight of every thread.
int64_t Chunk::rowsAhead(const GpuTuning &tuning) {
  constexpr int64_t perThread = ALTGRAD_LANES / warpThreads;
  if (!sweep.getNumResults() || isBlockwise() || !sweep.getStores().empty() || sweep.getLoads().empty() ||
      isLong(sweep))
    return 1;
  int64_t bytes = 0;
  for (Value tensors : sweep.getLoads())
    bytes += perThread * getBytes(tensors);
  int64_t rows = std::min<int64_t>(tuning.bytesAhead / bytes, tuning.rowsAhead);
  return rows > 1 ? int64_t(llvm::bit_floor(uint64_t(rows))) : 1;
}

//===-- Values that wait between stages -----------------------------------------===//

void KeptValues::allocate() {
  unsigned bytes = sweep.getWidth() * sizeof(float);
  for (auto [number, stage] : llvm::enumerate(getStages(sweep.getBody())))
    for (unsigned i = 0; i < stage.getKept().size(); ++i) {
      std::string name = "kept" + std::to_string(values.size());
      Kept kept{unsigned(number), {}, gpu.shared.getThreadEntry(name, bytes)};
      for (Region &body : sweep.getWide())
        kept.values.push_back(getStages(body)[number].getKept()[i]);
      values.push_back(kept);
    }
}

Value KeptValues::slot(const Kept &kept, unsigned number) {
  return kernel.offset(kept.slots, kernel.i64(number), getStride(sweep.getWidth() * sizeof(float)));
}

SmallVector<Value> KeptValues::getStageValues(unsigned stage) const {
  SmallVector<Value> found;
  for (const Kept &kept : values)
    if (kept.stage == stage)
      found.push_back(kept.values.front());
  return found;
}

void KeptValues::store(unsigned stage, unsigned number, ArrayRef<Value> vectors) {
  for (const Kept &kept : values)
    if (kept.stage == stage) {
      kernel.store(vectors.front(), slot(kept, number), sweep.getWidth() * sizeof(float));
      vectors = vectors.drop_front();
    }
}

// A volatile load: kept in registers all of them would be more than there are.
IRMapping KeptValues::load(const IRMapping &known, Region &body, unsigned number) {
  IRMapping all(known);
  for (const Kept &kept : values)
    for (Value value : kept.values)
      if (value.getParentRegion() == &body)
        all.map(value, LLVM::LoadOp::create(builder, value.getType(), slot(kept, number),
                                            /*alignment=*/sweep.getWidth() * sizeof(float), /*isVolatile=*/true)
                           .getResult());
  return all;
}
