// The table of targets. PTX versions: the lowest that LLVM 22 and ptxas 13 give
// the chip, so that the oldest driver can load the text.
#include "dialect/Target.h"

using namespace altgrad;

static constexpr CpuTuning avx512{
    .serialDivisions = 0, .passElements = 0, .sumRegisters = 24, .fastQuotients = true, .fastBooks = true},
    avx2{.serialDivisions = 2, .passElements = 512, .sumRegisters = 10, .fastQuotients = false, .fastBooks = false};
// The best of 0, 1, 2 and 4 rounds on an H100, whose blocks may have 227 KB.
static constexpr GpuTuning anyGpu{}, largeGpu{.sharedBytes = 36 << 10, .blockSharedBytes = 163 << 10},
    hopper{.sharedBytes = 36 << 10, .blockSharedBytes = 163 << 10, .prefetchedRounds = 2};

static constexpr Target targets[] = {
    {"x86-64-v3", "v3", "", false, false, 8, avx2, {}},  {"x86-64-v4", "v4", "", false, false, 16, avx512, {}},
    {"sm_80", "", "7.0", false, false, 2, {}, largeGpu}, {"sm_86", "", "7.1", false, false, 2, {}, anyGpu},
    {"sm_89", "", "8.1", true, false, 2, {}, anyGpu},    {"sm_90", "", "7.8", true, true, 2, {}, hopper},
    {"sm_90a", "", "8.0", true, true, 2, {}, hopper},
};

llvm::ArrayRef<Target> altgrad::getTargets() { return targets; }

const Target *altgrad::findTarget(llvm::StringRef name) {
  for (const Target &target : targets)
    if (target.name == name)
      return &target;
  return nullptr;
}

const Target *altgrad::findTarget(llvm::StringRef name, mlir::Operation *op) {
  const Target *target = findTarget(name);
  if (!target)
    op->emitError() << "unknown target '" << name << "'";
  return target;
}
