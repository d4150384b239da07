// Rules as files: where `@adamw` is found when the module does not hold it.
#ifndef ALTGRAD_PASSES_RULEPATH_H
#define ALTGRAD_PASSES_RULEPATH_H

#include "dialect/Dialect.h"
#include "mlir/IR/OwningOpRef.h"

namespace altgrad {

/// Reads `<name>.mlir` from the first of the folders in `path` (separated by
/// colons) that has it. Emits an error at `loc` and returns null if there is
/// none, or if it holds no rule of that name.
mlir::OwningOpRef<RuleOp> findRule(llvm::StringRef name, llvm::StringRef path,
                                   mlir::Location loc);

/// Names of all rules on `path`, sorted.
std::vector<std::string> listRules(llvm::StringRef path);

} // namespace altgrad

#endif // ALTGRAD_PASSES_RULEPATH_H
