// Partial sums in their fixed shape.
#ifndef ALTGRAD_CODEGEN_COMMON_REDUCTIONS_H
#define ALTGRAD_CODEGEN_COMMON_REDUCTIONS_H

#include "dialect/Dialect.h"
#include "dialect/builders/CodeBuilder.h"

namespace altgrad {

/// The neutral element of a partial sum, its
/// update by an element, and the joining of two partial sums. Types: f32 or
/// vectors of it; i32 for `and`.
Type partialType(Reduction kind, Type element);
Value neutral(CodeBuilder &builder, Reduction kind, Type type);
Value accumulate(CodeBuilder &builder, Reduction kind, Value partial, Value element);
Value combine(CodeBuilder &builder, Reduction kind, Value a, Value b);

/// What a sum over a block of neighbours has of an element; one that does not exist has 0. They are added in pairs: 0
/// and 1, 2 and 3 …, then these.
Value getBlockTerm(CodeBuilder &builder, Reduction kind, Value element);
/// Whether a sum depends on the order of its parts: counts of at most 4096 do not.
bool isOrdered(Reduction kind);

SmallVector<Value> splitVector(CodeBuilder &builder, Value vector);
/// Adds the upper half of a list to the lower, down to one.
Value combineElements(CodeBuilder &builder, Reduction kind, SmallVector<Value> elements);
/// The tree over neighbours.
Value combineNeighbours(CodeBuilder &builder, Reduction kind, SmallVector<Value> elements);
/// The value of a whole reduction, of which `sum` is the last partial sum.
Value getTotal(CodeBuilder &builder, Reduction kind, Value sum);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_COMMON_REDUCTIONS_H
