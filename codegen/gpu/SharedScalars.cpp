// What a thread has no registers for: uniform numbers wait in shared memory, and
// where that is not enough fewer blocks share a multiprocessor.
#include "codegen/gpu/GpuLowering.h"

using namespace mlir;
using namespace altgrad;

// Codes of accesses that hold more elements than a guard's: they were loaded
// before their time, or wait to be stored with others.
unsigned GpuLowering::waitingWords(Chunk &chunk) {
  int64_t elements = vectorsOfGuard(chunk) * chunk.sweep.getWidth();
  auto bytes = [&](OperandRange streams) {
    int64_t sum = 0;
    for (Value tensors : streams)
      if (blockOf(tensors) == 1)
        sum += std::max<int64_t>(periodOf(chunk, tensors) - elements, 0) * bytesOf(tensors);
    return sum;
  };
  return std::max(bytes(chunk.sweep.getLoads()), bytes(chunk.sweep.getStores())) / sizeof(int32_t);
}

// Where pointers, uniform numbers and waiting codes take too many registers, as many numbers as exceed wait in shared
// memory for every use: those with the fewest uses.
void GpuLowering::storeScalars(Chunk &chunk, ThreadMemory &memory) {
  SmallVector<Value> numbers = chunk.sweep.getScalars();
  llvm::erase_if(numbers,
                 [](Value value) { return !value.getType().isF32() || value.getDefiningOp<arith::ConstantOp>(); });
  constexpr unsigned bytes = sizeof(float);
  unsigned registers = numbers.size() + 2 * chunk.pointers.size() + waitingWords(chunk);
  unsigned limit = target.gpu.uniformRegisters;
  llvm::SmallDenseSet<unsigned> widths;
  for (auto &[tensors, pointer] : chunk.pointers)
    widths.insert(bytesOf(tensors));
  if (chunk.sweep.getNumResults() > 1 || widths.size() > 1 || chunk.tag)
    limit -= target.gpu.otherRegisters;
  if (registers <= limit)
    return;
  unsigned count = std::min<unsigned>({registers - limit, unsigned(numbers.size()), memory.room(bytes)});
  if (!count)
    return;
  llvm::stable_sort(numbers,
                    [](Value a, Value b) { return llvm::range_size(a.getUses()) < llvm::range_size(b.getUses()); });
  Value own = memory.allocate("scalars", count, bytes);
  for (unsigned i = 0; i < count; ++i) {
    Value to = kernel.offset(own, kernel.i64(i), ThreadMemory::stride(bytes));
    kernel.store(chunk.known.lookup(numbers[i]), to, bytes);
    chunk.known.map(numbers[i], to);
  }
}

// Blocks that ptxas makes room for, of a sweep whose numbers may all wait: a block's shared values, and sums beside
// draws or beside a master in two parts, are registers through the body, under a guard of every element. LAMB's two
// sums beside such a master are not too many.
unsigned GpuLowering::residentOf(Chunk &chunk) {
  const GpuTuning &tuning = target.gpu;
  Region &body = chunk.sweep.getBody();
  unsigned draws = llvm::range_size(body.getOps<DrawOp>());
  bool parts = !body.getOps<JoinCodesOp>().empty();
  unsigned sums = chunk.sweep.getNumResults();
  unsigned kept =
      2 * chunk.pointers.size() + waitingWords(chunk) + draws + tuning.ofBlock * blockReductions(body).size();
  if ((draws && sums > 1) || (parts && sums > 2))
    kept += sums * (chunk.sweep.getQuick() ? tuning.ofGuardedSum : tuning.ofSum);
  return tuning.residentBlocks - (kept > tuning.keptRegisters);
}
