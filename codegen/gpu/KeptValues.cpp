// What a block's reduction and the body behind it both compute of an element, where it comes from a code book: it waits
// in shared memory. So an element's codes are read and looked up once.
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

void GpuLowering::allocateKept(Chunk &chunk) {
  SweepOp sweep = chunk.sweep;
  unsigned bytes = sweep.getWidth() * sizeof(float);
  for (auto [number, stage] : llvm::enumerate(getStages(sweep.getBody())))
    for (unsigned i = 0; i < stage.getKept().size(); ++i) {
      std::string name = "kept" + std::to_string(chunk.kept.size());
      Kept kept{unsigned(number), {}, shared->ofThread(name, bytes)};
      for (Region &body : sweep.getWide())
        kept.values.push_back(getStages(body)[number].getKept()[i]);
      chunk.kept.push_back(kept);
    }
}

Value GpuLowering::getSlot(const Kept &kept, unsigned number, unsigned width) {
  return kernel.offset(kept.slots, kernel.i64(number), getStride(width * sizeof(float)));
}

void GpuLowering::loadAhead(Chunk &chunk, int64_t first) {
  if (shared->plan().ahead)
    chunk.ahead = accessesFrom(chunk, first, loadsAfterReductions(chunk.sweep));
}

// A volatile load: kept in registers all of them would be more than there are.
IRMapping GpuLowering::getKnown(const Chunk &chunk, Region &body, unsigned number) {
  IRMapping known(chunk.known);
  unsigned width = SweepOp(chunk.sweep).getWidth();
  for (const Kept &kept : chunk.kept)
    for (Value value : kept.values)
      if (value.getParentRegion() == &body)
        known.map(value, LLVM::LoadOp::create(builder, value.getType(), getSlot(kept, number, width),
                                              /*alignment=*/width * sizeof(float),
                                              /*isVolatile=*/true)
                             .getResult());
  return known;
}

// The uniform numbers with the fewest uses wait for every use.
void GpuLowering::storeScalars(Chunk &chunk) {
  constexpr unsigned bytes = sizeof(float);
  SmallVector<Value> numbers = getNumbers(chunk.sweep);
  llvm::stable_sort(numbers,
                    [](Value a, Value b) { return llvm::range_size(a.getUses()) < llvm::range_size(b.getUses()); });
  numbers.truncate(shared->entries("scalars", bytes));
  Value own = shared->ofThread("scalars", bytes);
  for (auto [i, number] : llvm::enumerate(numbers)) {
    Value to = kernel.offset(own, kernel.i64(i), getStride(bytes));
    kernel.store(chunk.known.lookup(number), to, bytes);
    chunk.known.map(number, to);
  }
}
