// Which type an argument of a rule has.
#ifndef ALTGRAD_DIALECT_ROLETYPES_H
#define ALTGRAD_DIALECT_ROLETYPES_H

#include "dialect/Dialect.h"

namespace altgrad {

/// That of a role of a rule.
mlir::Type getRoleType(Role role, mlir::MLIRContext *context);

/// Emits an error at `loc` and fails unless an argument of a rule has the type of its role.
mlir::LogicalResult verifyRoleType(mlir::Location loc, Role role, llvm::StringRef name, mlir::Type type);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_ROLETYPES_H
