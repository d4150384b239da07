// Rules as files: where `@adamw` is found when the module does not hold it.
#ifndef ALTGRAD_DIALECT_FRONTEND_RULEPATH_H
#define ALTGRAD_DIALECT_FRONTEND_RULEPATH_H

#include "altgrad/rule_files.h"
#include "dialect/Dialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace altgrad {

/// The rule of this name: the installation's own, whatever lies elsewhere;
/// otherwise `<name>.mlir` of the first of the folders in `path` (separated by
/// colons) that has it. Emits an error at `loc` and returns null if there is
/// none, or if the file is refused or holds no rule of that name. With `entry`
/// that entry of the rule, here and below.
mlir::OwningOpRef<RuleOp> findRule(llvm::StringRef name, llvm::StringRef path, mlir::Location loc,
                                   llvm::StringRef entry = "");

/// The one rule of a file, wherever that lies; or null after an error.
mlir::OwningOpRef<RuleOp> readRuleFile(llvm::StringRef file, mlir::Location loc, llvm::StringRef entry = "");

/// The one rule of `module` beside its entries, a copy; or null after an error that names them all.
mlir::OwningOpRef<RuleOp> getOnlyRule(mlir::ModuleOp module, llvm::StringRef file, mlir::Location loc,
                                      llvm::StringRef entry = "");

/// The entry of a rule of `module`, or the rule where `entry` is empty; null after an error that names its entries.
RuleOp findEntry(mlir::ModuleOp module, RuleOp rule, llvm::StringRef entry, mlir::Location loc);

/// Names of all rules that `findRule` finds, sorted.
std::vector<std::string> listRules(llvm::StringRef path);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_RULEPATH_H
