// Machine code and PTX of a lowered module, and bundles of both.
#ifndef ALTGRAD_CODEGEN_EMIT_CODE_H
#define ALTGRAD_CODEGEN_EMIT_CODE_H

#include "codegen/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include <string>

namespace altgrad {

/// PTX of a gpu.module whose body is in the llvm dialect.
mlir::FailureOr<std::string> emitPtx(mlir::Operation *gpuModule,
                                     const Target &target);

enum class HostForm { LLVMIR, Assembly, Object };
/// Code for a CPU of a module in the llvm dialect.
mlir::FailureOr<std::string> emitHost(mlir::ModuleOp module,
                                      const Target &target, HostForm form);

/// An object file with the manifest and the PTX texts as constants.
mlir::FailureOr<std::string>
emitConstants(mlir::Location loc, llvm::StringRef manifest,
              llvm::ArrayRef<std::pair<std::string, std::string>> ptx);

/// Links object files to a shared object, in process. A failure has no place in
/// the spec: its words go to stderr.
mlir::FailureOr<std::string> linkShared(llvm::ArrayRef<std::string> objects);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_EMIT_CODE_H
