// What a kernel takes of a multiprocessor, counted before the back end.
#ifndef ALTGRAD_CODEGEN_EMIT_RESOURCES_H
#define ALTGRAD_CODEGEN_EMIT_RESOURCES_H

#include "codegen/Target.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/Module.h"
#include <string>
#include <vector>

namespace altgrad {

struct Resources {
  std::string kernel;
  unsigned threads = 0;   // of a block
  unsigned live = 0;      // numbers of 32 bits that a thread has at once, in the order of the code
  unsigned registers = 0; // of a thread, estimated: ptxas orders the code anew where there are fewer
  unsigned shared = 0;    // bytes of a block, with what a launch adds
  unsigned stack = 0;     // bytes of a thread that the code asks for
  unsigned blocks = 1;    // of a multiprocessor that ptxas makes room for, which divide its registers
};

/// Of each kernel of an optimized module, in the order of the text. A kernel that was to have room for fewer blocks
/// than its numbers and shared memory leave is changed: it asks for as many as the target wants.
std::vector<Resources> fitResources(llvm::Module &module, const GpuTuning &tuning);

/// A line for each kernel.
std::string writeResources(llvm::ArrayRef<Resources> all);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_EMIT_RESOURCES_H
