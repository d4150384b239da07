// i32 arithmetic on the bits of numbers, one or a vector of them.
#ifndef ALTGRAD_CODEGEN_BITS_H
#define ALTGRAD_CODEGEN_BITS_H

#include "dialect/Dialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace altgrad {

constexpr uint32_t f32Infinity = 0x7f800000;

/// The bits of the f32 2^exponent, from -149 to 127.
constexpr uint32_t powerBits(int exponent) {
  return exponent < -126 ? 1u << (exponent + 149)
                         : uint32_t(exponent + 127) << 23;
}

/// A format as the arithmetic takes it: fixed point is the lowest two binades
/// of one exponent bit, and where there is no zero every code is one more, and
/// 0 a zero.
struct Shape {
  unsigned mantissa;
  int bias;
  bool uniform; // all codes are equally far apart

  constexpr explicit Shape(const Format &format)
      : mantissa(format.mantissaBits), bias(format.bias),
        uniform(format.exponentBits <= 1) {
    if (format.exponentBits == 0) {
      mantissa -= 1;
      bias += 2;
    } else if (!format.hasZero) {
      bias += 1;
    }
  }
  /// The exponent of the smallest number.
  constexpr int unit() const { return 1 - bias - int(mantissa); }
};

// i32 arithmetic on a scalar or on each element of a vector.
struct Bits {
  mlir::ImplicitLocOpBuilder &b;
  mlir::Type like; // f32, or a vector of it

  mlir::Type type(mlir::Type element) const {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(like))
      return mlir::VectorType::get(vector.getShape(), element);
    return element;
  }
  mlir::Type i32() const { return type(b.getI32Type()); }
  mlir::Value constant(uint32_t value) const {
    return splat(b.getI32IntegerAttr(static_cast<int32_t>(value)), i32());
  }
  mlir::Value constant(float value) const {
    return splat(b.getF32FloatAttr(value), type(b.getF32Type()));
  }
  mlir::Value splat(mlir::TypedAttr value, mlir::Type type) const {
    if (auto vector = mlir::dyn_cast<mlir::VectorType>(type))
      return mlir::arith::ConstantOp::create(
          b, mlir::DenseElementsAttr::get(vector, mlir::Attribute(value)));
    return mlir::arith::ConstantOp::create(b, value);
  }
  mlir::Value cast(mlir::Value value, mlir::Type to) const {
    return mlir::arith::BitcastOp::create(b, to, value);
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
  mlir::Value xors(mlir::Value x, mlir::Value y) const {
    return mlir::arith::XOrIOp::create(b, x, y);
  }
  mlir::Value number(uint32_t bits) const {
    return constant(__builtin_bit_cast(float, bits));
  }
  mlir::Value left(mlir::Value x, unsigned by) const {
    return by ? mlir::arith::ShLIOp::create(b, x, constant(by)).getResult() : x;
  }
  mlir::Value right(mlir::Value x, unsigned by) const {
    return by ? mlir::arith::ShRUIOp::create(b, x, constant(by)).getResult()
              : x;
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

#endif // ALTGRAD_CODEGEN_BITS_H
