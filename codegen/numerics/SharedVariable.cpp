// A variable in the shared memory of a GPU's kernel.
#include "codegen/numerics/SharedVariable.h"

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
