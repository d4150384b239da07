// What a thread does of a sweep at once, and the attribute of a phase.
#include "codegen/gpu/KernelResources.h"

#include "codegen/abi/Launches.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace altgrad;

// With reductions a warp must not pass the 256 lanes. No block is of more elements than a warp does at a time, or the
// threads of a block where they are more than those of 256, and no call of the generator serves more than a thread.
int64_t altgrad::getWidth(SweepOp sweep, const GpuTuning &tuning) {
  if (sweep.getTiles() || sweep.usesTiles())
    return tileColumns / threadsPerRow;
  int64_t bytes = 4;
  for (Value tensors : getStreams(sweep))
    if (getBlock(tensors) == 1)
      bytes = std::min<int64_t>(bytes, getBytes(tensors));
  int64_t width = tuning.accessBytes / bytes;
  if (usesDraws(sweep))
    width = std::max<int64_t>(width, drawGroup);
  if (sweep.getNumResults())
    width = std::min<int64_t>(width, ALTGRAD_LANES / warpThreads);
  int64_t block = sweep.getBlock();
  return std::max<int64_t>(width, block / (block > ALTGRAD_LANES ? ALTGRAD_BLOCK_THREADS : warpThreads));
}

bool altgrad::joinsWarps(SweepOp sweep) { return sweep.getBlock() > ALTGRAD_LANES; }

int64_t altgrad::getPeriod(SweepOp sweep, Value tensors, const GpuTuning &tuning) {
  int64_t most = 8 * tuning.accessBytes / getBits(tensors);
  return std::min(most, getWidth(sweep, tuning));
}

// More elements at once have more registers than a thread has. Nothing that a guard is about is stored before it is
// asked: an access ends with its elements.
unsigned altgrad::getVectorsPerGuard(SweepOp sweep, const GpuTuning &tuning) {
  if (!sweep.getFastPath())
    return 1;
  if (sweep.getNumResults() > tuning.guardedSums) // all of a vector's are registers
    return 1;
  int64_t elements = tuning.accessBytes / sizeof(float);
  return std::min(elements, getWidth(sweep, tuning)) / sweep.getWidth();
}

llvm::BitVector altgrad::loadsAfterReductions(SweepOp sweep) {
  Region &wide = sweep.getWide().front();
  IRMapping known;
  for (StageOp stage : getStages(wide)) {
    known.map(stage.getKept(), stage.getKept());
    known.map(stage.getReductions(), stage.getReductions());
  }
  llvm::BitVector read = findArguments(wide.front().getTerminator()->getOperands(), wide, known);
  for (unsigned index : read.set_bits())
    if (getBlock(sweep.getLoads()[index]) > 1)
      read.reset(index);
  return read;
}

int64_t altgrad::countDrawWords(DrawOp draw, int64_t elements) {
  return elements * getElementTypeOrSelf(draw.getType()).getIntOrFloatBitWidth() / 32;
}

int64_t altgrad::countAllDrawWords(Region &body, DrawOp draw) {
  int64_t words = 0;
  for (DrawOp other : body.getOps<DrawOp>()) {
    if (other == draw)
      break;
    words += countDrawWords(other);
  }
  return words;
}

SmallVector<Value> altgrad::getNumbers(SweepOp sweep) {
  SmallVector<Value> numbers = sweep.getScalars();
  llvm::erase_if(numbers,
                 [](Value value) { return !value.getType().isF32() || value.getDefiningOp<arith::ConstantOp>(); });
  return numbers;
}

bool altgrad::needsSharedWords(PhaseOp phase) {
  auto shares = [](PhaseOp small) { return small.count<FoldOp>() || small.count<TotalOp>(); };
  return shares(phase) || !getEpiloguePhases(phase).empty();
}

//===-- The attribute -------------------------------------------------------===//

unsigned KernelResources::bytes(StringRef variable) const {
  auto found = cast_or_null<IntegerAttr>(shared.get(variable));
  return found ? found.getInt() : 0;
}

void KernelResources::setOn(PhaseOp phase) const {
  Builder builder(phase.getContext());
  NamedAttrList all;
  all.append("blocks", builder.getI64IntegerAttr(blocks));
  all.append("shared", shared.getDictionary(phase.getContext()));
  if (ahead)
    all.append("ahead", builder.getUnitAttr());
  phase.setKernelResourcesAttr(all.getDictionary(phase.getContext()));
}

std::optional<KernelResources> KernelResources::get(PhaseOp phase) {
  DictionaryAttr all = phase.getKernelResourcesAttr();
  auto blocks = all ? all.getAs<IntegerAttr>("blocks") : IntegerAttr();
  auto shared = all ? all.getAs<DictionaryAttr>("shared") : DictionaryAttr();
  if (!blocks || !shared)
    return std::nullopt;
  return KernelResources{NamedAttrList(shared), unsigned(blocks.getInt()), all.contains("ahead")};
}

//===-- Variables, of a block and of its threads -------------------------------===//

Value SharedMemory::allocate(StringRef name, unsigned alignment, bool atLaunch) {
  return sharedVariable(kernel.builder, function, name, atLaunch ? 0 : resources.bytes(name), alignment);
}

Value SharedMemory::getThreadEntry(StringRef name, unsigned bytes) {
  return resources.bytes(name) ? kernel.offset(allocate(name, bytes), inBlock, bytes) : Value();
}
