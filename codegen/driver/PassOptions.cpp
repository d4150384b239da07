// --mlir-… ==> what a pass manager prints and measures.
#include "codegen/driver/PassOptions.h"

#include "codegen/driver/Register.h"

using namespace mlir;
using namespace altgrad;

bool altgrad::takePassOptions(int argc, char **argv) {
  auto isOne = [](StringRef word) { return word.ltrim('-').starts_with("mlir-"); };
  if (!llvm::any_of(llvm::ArrayRef(argv, argc).drop_front(), isOne))
    return false;
  registerPasses(); // the names that --mlir-print-ir-after= takes
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  return true;
}

PassReports::PassReports(bool wanted) : wanted(wanted) {
  if (!wanted)
    return;
  applyDefaultTimingManagerCLOptions(timing);
  total = timing.getRootScope();
}

LogicalResult PassReports::watch(PassManager &manager, StringRef pipeline) {
  if (!wanted)
    return success();
  if (failed(applyPassManagerCLOptions(manager)))
    return failure();
  nested = total.nest(pipeline);
  manager.enableTiming(nested);
  return success();
}
