// One compilation: from a spec, or a rule and a line of storage, to a product.
#ifndef ALTGRAD_CODEGEN_COMPILER_H
#define ALTGRAD_CODEGEN_COMPILER_H

#include "codegen/emit/Emit.h"
#include "mlir/IR/MLIRContext.h"

namespace altgrad {

enum class Product { MLIR, LLVM, Assembly, PTX, Report, Manifest, Bundle };

struct CompileRequest {
  Product product = Product::MLIR;
  std::string input;                // a file, "-", or "" with a rule
  std::vector<std::string> targets; // names; empty: those of a bundle
  StepRequest step;                 // step.rule is "" unless generated
  bool generate = false;            // --rule was given
  bool printStep = false;           // stop at the generated text
  std::string rulePath;
  bool canonicalize = true;
};

class Compiler {
public:
  explicit Compiler(const CompileRequest &request) : request(request) {}
  /// Fails after a diagnostic on stderr; `product` then holds nothing.
  mlir::LogicalResult run(std::string &product);

private:
  mlir::LogicalResult findTargets();
  mlir::LogicalResult read(std::string &text);
  mlir::LogicalResult generate(std::string &text);
  mlir::LogicalResult lowerToSweeps();
  mlir::LogicalResult make(std::string &product);
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
  lowerTo(const Target &target);
  mlir::FailureOr<std::string> ptxOf(const Target &target);
  mlir::FailureOr<std::string> hostOf(const Target &target, HostForm form);
  mlir::FailureOr<std::string> bundle();
  mlir::LogicalResult fail(const llvm::Twine &words);
  StepOp theStep() { return *module->getOps<StepOp>().begin(); }

  const CompileRequest &request;
  std::string name; // of the input, in diagnostics
  std::unique_ptr<mlir::MLIRContext> context;
  llvm::SmallVector<const Target *> targets;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  Signature signature;
  PhasePlan plan;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_COMPILER_H
