// What there is to choose from: targets, formats, operations, rules.
#ifndef ALTGRAD_CODEGEN_DRIVER_LISTS_H
#define ALTGRAD_CODEGEN_DRIVER_LISTS_H

#include "mlir/Support/LLVM.h"
#include <string>

namespace altgrad {

/// A line for each machine.
std::string listTargets();

/// A paragraph for each rule that is found on `path`: its name and first comment, then
/// its states, hyper-parameters, options, and the words that a storage line may have.
/// Fails after a diagnostic where a file holds no rule that can be read; the others are
/// in `text`.
mlir::LogicalResult describeRules(llvm::StringRef path, std::string &text);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_LISTS_H
