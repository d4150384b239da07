// The text of rules, in either form: that of MLIR, which begins `altgrad.rule @name(`, and the short one, `rule name(`.
#ifndef ALTGRAD_DIALECT_FRONTEND_RULETEXT_H
#define ALTGRAD_DIALECT_FRONTEND_RULETEXT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace llvm {
class SourceMgr;
}

namespace altgrad {

/// What is between the pages of a text, each of which has a form of its own.
inline constexpr char pageEnd = '\f';

/// Whether the first word behind the comments is `rule` or `entry`.
bool isShortText(llvm::StringRef text);

/// The module of the main text of `sources`, in either form; or null after an error.
mlir::OwningOpRef<mlir::ModuleOp> parseText(llvm::SourceMgr &sources, mlir::MLIRContext *context);
/// The same of a text that is called `name` in messages.
mlir::OwningOpRef<mlir::ModuleOp> parseText(llvm::StringRef text, llvm::StringRef name, mlir::MLIRContext *context);

/// All rules of a module in the form of MLIR; values have the names of the short text.
std::string printRules(mlir::ModuleOp module);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_RULETEXT_H
