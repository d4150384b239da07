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

unsigned SharedMemory::left() const {
  unsigned most = std::min(tuning.staticSharedBytes, tuning.blockSharedBytes - dynamic);
  return most - std::min(most, used);
}

Value SharedMemory::allocate(StringRef name, unsigned bytes, unsigned alignment) {
  assert(bytes <= left() && "a kernel with more shared memory than there is");
  used += bytes;
  return sharedVariable(builder, kernel, name, bytes, alignment);
}

Value SharedMemory::allocateDynamic(StringRef name, unsigned bytes, unsigned alignment) {
  dynamic += bytes;
  return sharedVariable(builder, kernel, name, /*bytes=*/0, alignment);
}

unsigned ThreadMemory::room(unsigned bytes) const { return std::min(limit - used, shared.left()) / stride(bytes); }

bool ThreadMemory::grow(unsigned count, unsigned bytes) {
  if (count * stride(bytes) > shared.left())
    return false;
  limit = std::max(limit, used + count * stride(bytes));
  return true;
}

Value ThreadMemory::allocate(StringRef name, unsigned count, unsigned bytes) {
  used += count * stride(bytes);
  Value all = shared.allocate(name, count * stride(bytes), bytes);
  return kernel.offset(all, inBlock, bytes);
}
