// Partial sums in their fixed shape.
#ifndef ALTGRAD_CODEGEN_COMMON_REDUCTIONS_H
#define ALTGRAD_CODEGEN_COMMON_REDUCTIONS_H

#include "dialect/Dialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace altgrad {

/// The neutral element of a partial sum, its
/// update by an element, and the joining of two partial sums. Types: f32 or
/// vectors of it; i32 for `and`.
mlir::Type partialType(Reduction kind, mlir::Type element);
mlir::Value neutral(mlir::ImplicitLocOpBuilder &builder, Reduction kind,
                    mlir::Type type);
mlir::Value accumulate(mlir::ImplicitLocOpBuilder &builder, Reduction kind,
                       mlir::Value partial, mlir::Value element);
mlir::Value join(mlir::ImplicitLocOpBuilder &builder, Reduction kind,
                 mlir::Value a, mlir::Value b);

/// Whether a sum depends on the order of its parts: counts of at most 4096 do not.
bool isOrdered(Reduction kind);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_COMMON_REDUCTIONS_H
