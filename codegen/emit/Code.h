// Machine code and PTX of a lowered module, and bundles of both.
#ifndef ALTGRAD_CODEGEN_EMIT_CODE_H
#define ALTGRAD_CODEGEN_EMIT_CODE_H

#include "codegen/Target.h"
#include "codegen/emit/Resources.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include <string>

namespace llvm {
class TargetMachine;
}

namespace altgrad {

/// Runs LLVM's passes that are worth their time for kernels.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

struct Ptx {
  std::string text;
  std::vector<Resources> resources; // of each kernel
};

/// PTX of a gpu.module whose body is in the llvm dialect.
mlir::FailureOr<Ptx> emitPtx(mlir::Operation *gpuModule, const Target &target);

enum class HostForm { LLVMIR, Assembly, Object };
/// Code for a CPU of a module in the llvm dialect.
mlir::FailureOr<std::string> emitHost(mlir::ModuleOp module, const Target &target, HostForm form);

/// A cubin of PTX text, made by the program `ptxas`; words about a failure go
/// to stderr.
mlir::FailureOr<std::string> assemble(llvm::StringRef ptx, const Target &target, llvm::StringRef ptxas);

struct GpuCode {
  llvm::StringRef target;
  std::string ptx, cubin; // no cubin: ""
};

/// An object file with the manifest, the PTX texts and the cubins as constants.
mlir::FailureOr<std::string> emitConstants(mlir::Location loc, llvm::StringRef manifest, llvm::ArrayRef<GpuCode> gpu);

/// Links object files to a shared object, in process. A failure has no place in
/// the spec: its words go to stderr.
mlir::FailureOr<std::string> linkShared(llvm::ArrayRef<std::string> objects);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_EMIT_CODE_H
