// Variables in shared memory, of a block and of its threads.
#include "codegen/gpu/SharedMemory.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace altgrad;

Value altgrad::sharedVariable(CodeBuilder &builder, LLVM::LLVMFuncOp kernel, StringRef name, unsigned bytes,
                              unsigned alignment) {
  auto space = unsigned(NVVM::NVVMMemorySpace::Shared);
  std::string symbol = (kernel.getSymName() + "_" + name).str();
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(kernel);
    LLVM::GlobalOp::create(builder, LLVM::LLVMArrayType::get(builder.getI8Type(), bytes),
                           /*isConstant=*/false, bytes ? LLVM::Linkage::Internal : LLVM::Linkage::External, symbol,
                           Attribute(), alignment, space);
  }
  return LLVM::AddressOfOp::create(builder, LLVM::LLVMPointerType::get(builder.getContext(), space), symbol);
}

Value SharedMemory::allocate(StringRef name, unsigned alignment) {
  return sharedVariable(kernel.builder, function, name, room.bytes(name), alignment);
}

Value SharedMemory::allocateAtLaunch(StringRef name, unsigned alignment) {
  return sharedVariable(kernel.builder, function, name, /*bytes=*/0, alignment);
}

Value SharedMemory::ofThread(StringRef name, unsigned bytes) {
  return room.bytes(name) ? kernel.offset(allocate(name, bytes), inBlock, bytes) : Value();
}
