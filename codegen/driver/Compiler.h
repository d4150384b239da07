// One compilation: from a spec, or a rule and a line of storage, to a product.
#ifndef ALTGRAD_CODEGEN_DRIVER_COMPILER_H
#define ALTGRAD_CODEGEN_DRIVER_COMPILER_H

#include "codegen/emit/Code.h"
#include "dialect/frontend/Request.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"
#include "passes/analysis/Analyze.h"
#include <map>

namespace llvm {
class SourceMgr;
}

namespace altgrad {

enum class Product { MLIR, LLVM, Assembly, PTX, Resources, Report, Manifest, Bundle, Analysis };

struct CompileRequest {
  Product product = Product::MLIR;
  std::string input;                // a file, "-", or "" with a rule
  std::vector<std::string> targets; // names; empty: those of a bundle
  StepRequest step;                 // has sets where a step is generated
  bool printStep = false;           // stop at the generated text
  bool printRule = false;           // stop at the rules, and print them in the form of MLIR
  std::string rulePath;
  std::string entry;              // of the rules of all sets; "": the rules themselves
  llvm::StringMap<double> values; // of hyper-parameters, for an analysis
  std::string ptxas;              // makes a bundle's cubins; "": there are none
  bool canonicalize = true;
  bool ownProducts = false; // kernels for products of matrices on a GPU
  bool passOptions = false; // MLIR's own are on the command line
  bool generates() const { return !step.sets.empty() || step.lossScaler; }
};

/// Registers --mlir-print-ir-after-all, --mlir-print-ir-before=<pass>, --mlir-timing and
/// their like if the command line has such a word; whether it has.
bool parsePassOptions(int argc, char **argv);

/// What these options ask for, of all pipelines of a compilation. The times are printed
/// to stderr when it ends.
class PassReports {
public:
  explicit PassReports(bool wanted);
  /// Fails after a diagnostic, for options that contradict each other.
  mlir::LogicalResult instrument(mlir::PassManager &manager, llvm::StringRef pipeline);

private:
  bool wanted;
  mlir::DefaultTimingManager timing;
  mlir::TimingScope total, nested;
};

class Compiler {
public:
  explicit Compiler(const CompileRequest &request) : request(request), reports(request.passOptions) {}
  /// Fails after a diagnostic on stderr; `product` then holds nothing.
  mlir::LogicalResult run(std::string &product);

private:
  mlir::LogicalResult findTargets();
  mlir::LogicalResult read(std::string &text);
  mlir::LogicalResult generate(std::string &text);
  mlir::LogicalResult writeRules(std::string &product);
  RuleOp getRule(const SetRequest &set, unsigned index, mlir::ModuleOp file);
  void quoteSets(llvm::SourceMgr &sources);
  mlir::LogicalResult checkModule();
  mlir::LogicalResult lowerToPhases();
  RuleOp getRule(UpdateOp update);
  mlir::FailureOr<Findings> findLosses();
  mlir::LogicalResult analyzeStep(std::string &product);
  void analyzeForManifest();
  llvm::json::Object manifest();
  mlir::LogicalResult buildProduct(std::string &product);
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> lowerTo(const Target &target);
  mlir::FailureOr<Ptx> compilePtx(const Target &target);
  mlir::FailureOr<std::string> compileHost(const Target &target, HostForm form);
  mlir::FailureOr<std::string> bundle();
  mlir::LogicalResult fail(const llvm::Twine &words);
  StepOp getStep() { return *module->getOps<StepOp>().begin(); }

  const CompileRequest &request;
  PassReports reports;
  std::string name; // of the input, in diagnostics
  std::unique_ptr<mlir::MLIRContext> context;
  llvm::SmallVector<const Target *> targets;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  llvm::SmallVector<Limit> limits;                        // of its formats, before it was lowered
  llvm::SmallVector<bool> positionDependent;              // of its sets, see findPositionDependentSets
  std::map<std::string, mlir::OwningOpRef<RuleOp>> rules; // read for sets
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_COMPILER_H
