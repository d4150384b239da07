// Machine code and PTX of a lowered module, bundles of both, and what is said of them.
#ifndef ALTGRAD_CODEGEN_EMIT_CODE_H
#define ALTGRAD_CODEGEN_EMIT_CODE_H

#include "dialect/Dialect.h"
#include "dialect/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include <string>

namespace llvm {
class TargetMachine;
}

namespace altgrad {

/// Runs LLVM's passes that are worth their time for kernels.
void optimize(llvm::Module &module, llvm::TargetMachine &machine);

/// What a kernel takes of a multiprocessor, counted before the back end.
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

struct Ptx {
  std::string text;
  std::vector<Resources> resources; // of each kernel
};

/// PTX of a gpu.module whose body is in the llvm dialect.
mlir::FailureOr<Ptx> emitPtx(mlir::Operation *gpuModule, const Target &target);

enum class HostForm { LLVMIR, Assembly, Object };
/// Code for a CPU of a module in the llvm dialect.
mlir::FailureOr<std::string> emitHost(mlir::ModuleOp module, const Target &target, HostForm form);

/// A folder of our own, gone at the end of the scope. While it lives, whatever this process and its children make is
/// for its user alone. The folder is reached by its descriptor: who may write to the folder around it can put another
/// one in its place.
class Scratch {
public:
  Scratch();
  ~Scratch();
  /// A path for this process and its children.
  std::string file(llvm::StringRef name) const;
  void write(llvm::StringRef name, llvm::StringRef bytes);
  /// Of a file that somebody has written there; "" without it.
  std::string read(llvm::StringRef name) const;

private:
  llvm::SmallString<128> folder; // "" where none was made
  int descriptor = -1;
  unsigned umaskBefore;

public:
  /// Of making the folder, or of a `write`.
  std::error_code error;
};

/// A cubin of PTX text, made by the program `ptxas`; words about a failure go
/// to stderr.
mlir::FailureOr<std::string> assemble(llvm::StringRef ptx, const Target &target, llvm::StringRef ptxas);

struct GpuCode {
  llvm::StringRef target;
  std::string ptx, cubin; // no cubin: ""
};

/// An object file with the manifest, the PTX texts and the cubins as constants.
mlir::FailureOr<std::string> emitConstants(mlir::Location loc, llvm::StringRef manifest, llvm::ArrayRef<GpuCode> gpu);

/// Links object files to a bundle, in process. A failure has no place in
/// the spec: its words go to stderr.
mlir::FailureOr<std::string> linkShared(llvm::ArrayRef<std::string> objects);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_EMIT_CODE_H
