// What leaves the compiler: machine code, PTX, bundles, manifests, reports.
#ifndef ALTGRAD_CODEGEN_EMIT_H
#define ALTGRAD_CODEGEN_EMIT_H

#include "codegen/phases/Phases.h"
#include "codegen/Target.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/JSON.h"
#include <string>
#include <vector>

namespace altgrad {

/// What a manifest says of a step, taken from its text before any pass.
struct Signature {
  struct Scalar {
    std::string name, access, type, scope, role;
    std::optional<double> fallback; // the rule's default
    unsigned slot;
  };
  struct Stream {
    std::string name, access, role, format;
    unsigned bytes, slot, set;
  };
  std::string step;
  std::vector<Stream> streams;
  std::vector<Scalar> scalars;
  Layout layout;
};
/// `ruleOf` finds the rule of an update: the module's, or one of the rule path.
Signature describeStep(StepOp step,
                       llvm::function_ref<RuleOp(UpdateOp)> ruleOf);

/// The manifest of bundle.h.
llvm::json::Object writeManifest(const Signature &signature, StepOp sweeps,
                                 const PhasePlan &plan,
                                 llvm::ArrayRef<const Target *> targets);

/// Sweeps, bytes per element, launches, and the time that the bytes take.
std::string writeReport(const Signature &signature, StepOp sweeps,
                        const PhasePlan &plan);

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

/// The text of a step that applies one rule, as a person would write it.
/// `storage` is "param=bf16 master=f32 m=f32"; see --help.
struct StepRequest {
  std::string rule;
  std::vector<std::string> options;
  std::string storage;
  bool clip = false;
  bool unscale = false; // by inv_scale, with a check of its own
  bool scaler = false;  // torch's grad_scale and found_inf
};
mlir::FailureOr<std::string> generateStep(const StepRequest &request,
                                          RuleOp rule);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_EMIT_H
