// Which type an argument of a rule has.
#ifndef ALTGRAD_DIALECT_ROLETYPES_H
#define ALTGRAD_DIALECT_ROLETYPES_H

#include "dialect/Dialect.h"

namespace altgrad {

/// That of a role of a rule; of a state, with values of this scope, the widest one.
mlir::Type getRoleType(Role role, Scope scope, mlir::MLIRContext *context);

/// Emits an error at `loc` and fails unless an argument of a rule has a type of its role.
mlir::LogicalResult verifyRoleType(mlir::Location loc, Role role, Scope scope, llvm::StringRef name, mlir::Type type);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_ROLETYPES_H
