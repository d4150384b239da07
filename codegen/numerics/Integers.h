// Arithmetic on an integer, or on each of a vector of them.
#ifndef ALTGRAD_CODEGEN_INTEGERS_H
#define ALTGRAD_CODEGEN_INTEGERS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"

namespace altgrad {

struct Integers {
  mlir::ImplicitLocOpBuilder &b;
  mlir::Type type; // of what is computed

  /// The same number of values of type `element`.
  mlir::Type of(mlir::Type element) const {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      return mlir::VectorType::get(vector.getShape(), element);
    return element;
  }
  mlir::Value splat(mlir::TypedAttr value) const {
    mlir::Type all = of(value.getType());
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(all))
      return mlir::arith::ConstantOp::create(
          b, mlir::DenseElementsAttr::get(vector, mlir::Attribute(value)));
    return mlir::arith::ConstantOp::create(b, value);
  }
  mlir::Value constant(uint64_t value) const {
    mlir::Type element = mlir::getElementTypeOrSelf(type);
    unsigned bits = element.getIntOrFloatBitWidth();
    return splat(
        mlir::IntegerAttr::get(element, llvm::APInt(64, value).trunc(bits)));
  }
  mlir::Value add(mlir::Value x, mlir::Value y) const {
    return mlir::arith::AddIOp::create(b, x, y);
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) const {
    return mlir::arith::SubIOp::create(b, x, y);
  }
  mlir::Value both(mlir::Value x, mlir::Value y) const {
    return mlir::arith::AndIOp::create(b, x, y);
  }
  mlir::Value either(mlir::Value x, mlir::Value y) const {
    return mlir::arith::OrIOp::create(b, x, y);
  }
  mlir::Value exclusive(mlir::Value x, mlir::Value y) const {
    return mlir::arith::XOrIOp::create(b, x, y);
  }
  mlir::Value left(mlir::Value x, unsigned by) const {
    return by ? mlir::arith::ShLIOp::create(b, x, constant(by)).getResult() : x;
  }
  mlir::Value right(mlir::Value x, unsigned by) const {
    return by ? mlir::arith::ShRUIOp::create(b, x, constant(by)).getResult()
              : x;
  }
  mlir::Value least(mlir::Value x, mlir::Value y) const {
    return mlir::arith::MinSIOp::create(b, x, y);
  }
  mlir::Value above(mlir::Value x, mlir::Value y) const {
    return mlir::arith::CmpIOp::create(b, mlir::arith::CmpIPredicate::sgt, x,
                                       y);
  }
  mlir::Value choose(mlir::Value condition, mlir::Value x,
                     mlir::Value y) const {
    return mlir::arith::SelectOp::create(b, condition, x, y);
  }
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_INTEGERS_H
