// Arithmetic on an integer, or on each of a vector of them.
#ifndef ALTGRAD_CODEGEN_INTEGERS_H
#define ALTGRAD_CODEGEN_INTEGERS_H

#include "codegen/numerics/CodeBuilder.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

namespace altgrad {

struct Integers {
  CodeBuilder &b;
  Type type; // of what is computed

  /// The same number of values of type `element`.
  Type of(Type element) const {
    if (auto vector = mlir::dyn_cast<VectorType>(type))
      return VectorType::get(vector.getShape(), element);
    return element;
  }
  Value splat(mlir::TypedAttr value) const {
    Type all = of(value.getType());
    if (auto vector = mlir::dyn_cast<VectorType>(all))
      return mlir::arith::ConstantOp::create(b, mlir::DenseElementsAttr::get(vector, mlir::Attribute(value)));
    return mlir::arith::ConstantOp::create(b, value);
  }
  Value constant(uint64_t value) const {
    Type element = mlir::getElementTypeOrSelf(type);
    unsigned bits = element.getIntOrFloatBitWidth();
    return splat(mlir::IntegerAttr::get(element, llvm::APInt(64, value).trunc(bits)));
  }
  Value add(Value x, Value y) const { return b.add(x, y); }
  Value sub(Value x, Value y) const { return b.sub(x, y); }
  Value both(Value x, Value y) const { return b.both(x, y); }
  Value either(Value x, Value y) const { return b.either(x, y); }
  Value exclusive(Value x, Value y) const { return b.exclusive(x, y); }
  Value left(Value x, unsigned by) const { return by ? b.left(x, constant(by)) : x; }
  Value right(Value x, unsigned by) const { return by ? b.right(x, constant(by)) : x; }
  Value least(Value x, Value y) const { return b.least(x, y); }
  Value above(Value x, Value y) const { return mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::sgt, x, y); }
  Value choose(Value condition, Value x, Value y) const { return b.choose(condition, x, y); }
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_INTEGERS_H
