// Arithmetic on an integer, or on each of a vector of them.
#ifndef ALTGRAD_DIALECT_BUILDERS_INTEGERS_H
#define ALTGRAD_DIALECT_BUILDERS_INTEGERS_H

#include "dialect/Dialect.h"
#include "dialect/builders/CodeBuilder.h"

namespace altgrad {

struct Integers {
  CodeBuilder &b;
  Type type; // of what is computed

  /// The same number of values of type `element`.
  Type of(Type element) const { return withElementType(type, element); }
  Value splat(mlir::TypedAttr value) const { return b.splat(type, value); }
  Value constant(uint64_t value) const { return b.integer(type, value); }
  Value add(Value x, Value y) const { return b.add(x, y); }
  Value sub(Value x, Value y) const { return b.sub(x, y); }
  Value bitAnd(Value x, Value y) const { return b.bitAnd(x, y); }
  Value bitOr(Value x, Value y) const { return b.bitOr(x, y); }
  Value bitXor(Value x, Value y) const { return b.bitXor(x, y); }
  Value shiftLeft(Value x, unsigned by) const { return by ? b.shiftLeft(x, constant(by)) : x; }
  Value shiftRight(Value x, unsigned by) const { return by ? b.shiftRight(x, constant(by)) : x; }
  Value minSigned(Value x, Value y) const { return b.minSigned(x, y); }
  Value greater(Value x, Value y) const { return b.greater(x, y); }
  Value select(Value condition, Value x, Value y) const { return b.select(condition, x, y); }
};

/// What `of` makes of numbers, or of each element of vectors one by one.
inline Value scalarize(CodeBuilder &b, Type type, ValueRange all, function_ref<Value(ValueRange)> of) {
  auto vector = mlir::dyn_cast<VectorType>(type);
  if (!vector)
    return of(all);
  SmallVector<Value> made;
  for (int64_t i = 0; i < vector.getNumElements(); ++i)
    made.push_back(of(llvm::map_to_vector(all, [&](Value values) { return b.element(values, i); })));
  return b.fromElements(vector, made);
}

} // namespace altgrad

#endif // ALTGRAD_DIALECT_BUILDERS_INTEGERS_H
