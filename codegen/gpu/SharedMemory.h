// The variables in shared memory that `altgrad-fit-resources` gives a kernel.
#ifndef ALTGRAD_CODEGEN_SHAREDMEMORY_H
#define ALTGRAD_CODEGEN_SHAREDMEMORY_H

#include "codegen/gpu/Room.h"

namespace altgrad {

class SharedMemory {
public:
  /// The builder is in the kernel's outermost block. `inBlock`: the thread's number.
  SharedMemory(KernelBuilder &kernel, mlir::LLVM::LLVMFuncOp function, Value inBlock, Room room)
      : kernel(kernel), function(function), inBlock(inBlock), room(std::move(room)) {}

  const Room &plan() const { return room; }
  /// The entries of `bytes` that each thread has of a variable; 0 without it.
  unsigned entries(StringRef name, unsigned bytes) const { return room.bytes(name) / strideOf(bytes); }
  Value allocate(StringRef name, unsigned alignment);
  /// What a launch adds to what the kernel says itself.
  Value allocateAtLaunch(StringRef name, unsigned alignment);
  /// The first of a thread's entries, or null where the variable has no room.
  Value ofThread(StringRef name, unsigned bytes);

private:
  KernelBuilder &kernel;
  mlir::LLVM::LLVMFuncOp function;
  Value inBlock;
  Room room;
};

/// A variable in shared memory; of 0 bytes it is what a launch adds.
Value sharedVariable(CodeBuilder &builder, mlir::LLVM::LLVMFuncOp kernel, StringRef name, unsigned bytes,
                     unsigned alignment);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_SHAREDMEMORY_H
