// MLIR's own options about passes, beside --rule and --emit.
#ifndef ALTGRAD_CODEGEN_DRIVER_PASSOPTIONS_H
#define ALTGRAD_CODEGEN_DRIVER_PASSOPTIONS_H

#include "mlir/Pass/PassManager.h"
#include "mlir/Support/Timing.h"

namespace altgrad {

/// Registers --mlir-print-ir-after-all, --mlir-print-ir-before=<pass>, --mlir-timing and
/// their like if the command line has such a word; whether it has.
bool takePassOptions(int argc, char **argv);

/// What these options ask for, of all pipelines of a compilation. The times are printed
/// to stderr when it ends.
class PassReports {
public:
  explicit PassReports(bool wanted);
  /// Fails after a diagnostic, for options that contradict each other.
  mlir::LogicalResult watch(mlir::PassManager &manager, llvm::StringRef pipeline);

private:
  bool wanted;
  mlir::DefaultTimingManager timing;
  mlir::TimingScope total, nested;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_PASSOPTIONS_H
