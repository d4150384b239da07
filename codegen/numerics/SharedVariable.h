// A variable in the shared memory of a GPU's kernel.
#ifndef ALTGRAD_CODEGEN_NUMERICS_SHAREDVARIABLE_H
#define ALTGRAD_CODEGEN_NUMERICS_SHAREDVARIABLE_H

#include "dialect/builders/CodeBuilder.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace altgrad {

/// A variable in shared memory; of 0 bytes it is what a launch adds.
Value sharedVariable(CodeBuilder &builder, mlir::LLVM::LLVMFuncOp kernel, StringRef name, unsigned bytes,
                     unsigned alignment);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_NUMERICS_SHAREDVARIABLE_H
