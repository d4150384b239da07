// The table of targets. PTX versions: the lowest that LLVM 22 and ptxas 13 give
// the chip, so that the oldest driver can load the text.
#include "codegen/Target.h"

using namespace altgrad;

static constexpr Target targets[] = {
    {"x86-64-v3", "x86-64-v3", "v3", "", 8, false},
    {"x86-64-v4", "x86-64-v4", "v4", "", 16, false},
    {"sm_80", "sm_80", "", "7.0", 0, false},
    {"sm_86", "sm_86", "", "7.1", 0, false},
    {"sm_89", "sm_89", "", "8.1", 0, true},
    {"sm_90", "sm_90", "", "7.8", 0, true},
    {"sm_90a", "sm_90a", "", "8.0", 0, true},
};

llvm::ArrayRef<Target> altgrad::getTargets() { return targets; }

const Target *altgrad::findTarget(llvm::StringRef name) {
  for (const Target &target : targets)
    if (target.name == name)
      return &target;
  return nullptr;
}
