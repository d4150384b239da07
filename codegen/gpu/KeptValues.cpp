// What a block's reduction and the body behind it both compute of an element, where it comes from a code book: it waits
// in shared memory, as far as there is room. So an element's codes are read and looked up once.
#include "codegen/gpu/GpuLowering.h"
#include "dialect/Codecs.h"

using namespace mlir;
using namespace altgrad;

void GpuLowering::allocateKept(Chunk &chunk, ThreadMemory &memory) {
  SweepOp sweep = chunk.sweep;
  unsigned bytes = sweep.getWidth() * sizeof(float);
  for (auto [number, stage] : llvm::enumerate(stagesOf(sweep.getBody())))
    for (unsigned i = 0; i < stage.getKept().size() && memory.grow(chunk.vectors(), bytes); ++i) {
      std::string name = "kept" + std::to_string(chunk.kept.size());
      Kept kept{unsigned(number), {}, memory.allocate(name, chunk.vectors(), bytes)};
      for (Region &body : sweep.getWide())
        kept.values.push_back(stagesOf(body)[number].getKept()[i]);
      chunk.kept.push_back(kept);
    }
}

Value GpuLowering::slotOf(const Kept &kept, unsigned number, unsigned width) {
  return kernel.offset(kept.slots, kernel.i64(number), ThreadMemory::stride(width * sizeof(float)));
}

static bool haveRegisters(SweepOp sweep, int64_t words, const GpuTuning &tuning) {
  Block &body = sweep.getWide().front().front();
  int64_t searches = llvm::count_if(body.getOps<EncodeOp>(), tableOf);
  bool isGuarded = sweep.getWide().size() > 1;
  return words + tuning.ofSearch * searches + tuning.ofGuard * isGuarded <= tuning.aheadWords;
}

void GpuLowering::loadAhead(Chunk &chunk, int64_t first) {
  if (chunk.kept.empty())
    return;
  SweepOp sweep = chunk.sweep;
  Region &wide = sweep.getWide().front();
  IRMapping known(chunk.known);
  for (const Kept &one : chunk.kept)
    known.map(one.values.front(), one.slots);
  llvm::BitVector read = argumentsFor(wide.front().getTerminator()->getOperands(), wide, known);
  int64_t words = 0;
  for (auto [index, tensors] : llvm::enumerate(sweep.getLoads())) {
    if (chunk.shared.contains(tensors))
      read.reset(index);
    if (read[index])
      words += chunk.width * bitsOf(tensors) / 32;
  }
  if (haveRegisters(sweep, words, target.gpu))
    chunk.ahead = accessesFrom(chunk, first, read);
}

// A volatile load: kept in registers all of them would be more than there are.
IRMapping GpuLowering::knownOf(const Chunk &chunk, Region &body, unsigned number) {
  IRMapping known(chunk.known);
  unsigned width = SweepOp(chunk.sweep).getWidth();
  for (const Kept &kept : chunk.kept)
    for (Value value : kept.values)
      if (value.getParentRegion() == &body)
        known.map(value, LLVM::LoadOp::create(builder, value.getType(), slotOf(kept, number, width),
                                              /*alignment=*/width * sizeof(float),
                                              /*isVolatile=*/true)
                             .getResult());
  return known;
}
