// Builds arithmetic in short words, on numbers and on vectors of them alike.
#ifndef ALTGRAD_DIALECT_BUILDERS_CODEBUILDER_H
#define ALTGRAD_DIALECT_BUILDERS_CODEBUILDER_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace altgrad {

// What headers of passes and code generation speak of.
using llvm::ArrayRef, llvm::MapVector, llvm::MutableArrayRef, llvm::SmallVector, llvm::SmallVectorImpl, llvm::StringRef;
using mlir::Block, mlir::BlockArgument, mlir::DenseMap, mlir::DenseSet, mlir::function_ref, mlir::IRMapping;
using mlir::Location, mlir::LogicalResult, mlir::Operation, mlir::OpOperand, mlir::Region, mlir::ResultRange;
using mlir::SetVector, mlir::Type, mlir::TypeRange, mlir::Value, mlir::ValueRange, mlir::VectorType;

class CodeBuilder : public mlir::ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  // Constants. `like` is a type, or a vector, of as many as which there are.
  Value splat(Type like, mlir::TypedAttr one) {
    if (auto vector = mlir::dyn_cast_if_present<VectorType>(like))
      one = mlir::DenseElementsAttr::get(VectorType::get(vector.getShape(), one.getType()), mlir::Attribute(one));
    return make<mlir::arith::ConstantOp>(one);
  }
  Value f32(float number, Type like = {}) { return splat(like, getF32FloatAttr(number)); }
  Value f64(double number) { return splat({}, getF64FloatAttr(number)); }
  Value integer(Type type, uint64_t number) {
    Type one = mlir::getElementTypeOrSelf(type);
    return splat(type, getIntegerAttr(one, llvm::APInt(64, number).trunc(one.getIntOrFloatBitWidth())));
  }
  Value denseInts(Type vector, ArrayRef<int64_t> numbers) {
    return make<mlir::arith::ConstantOp>(mlir::DenseElementsAttr::get(mlir::cast<VectorType>(vector), numbers));
  }
  Value constBool(bool is = true) { return integer(getI1Type(), is); }

  // Of integers; without a word about their sign where it does not matter.
  Value add(Value a, Value b) { return make<mlir::arith::AddIOp>(a, b); }
  Value sub(Value a, Value b) { return make<mlir::arith::SubIOp>(a, b); }
  Value mul(Value a, Value b) { return make<mlir::arith::MulIOp>(a, b); }
  Value div(Value a, Value b) { return make<mlir::arith::DivUIOp>(a, b); } // unsigned
  Value abs(Value a) { return make<mlir::math::AbsIOp>(a); }
  Value bitAnd(Value a, Value b) { return make<mlir::arith::AndIOp>(a, b); }
  Value bitOr(Value a, Value b) { return make<mlir::arith::OrIOp>(a, b); }
  Value bitXor(Value a, Value b) { return make<mlir::arith::XOrIOp>(a, b); }
  Value shiftLeft(Value a, Value by) { return make<mlir::arith::ShLIOp>(a, by); }
  Value shiftRight(Value a, Value by) { return make<mlir::arith::ShRUIOp>(a, by); } // unsigned
  Value shiftRightSigned(Value a, Value by) { return make<mlir::arith::ShRSIOp>(a, by); }
  Value minSigned(Value a, Value b) { return make<mlir::arith::MinSIOp>(a, b); }
  Value maxSigned(Value a, Value b) { return make<mlir::arith::MaxSIOp>(a, b); }
  Value equal(Value a, Value b) { return compare(mlir::arith::CmpIPredicate::eq, a, b); }
  Value notEqual(Value a, Value b) { return compare(mlir::arith::CmpIPredicate::ne, a, b); }
  Value less(Value a, Value b) { return compare(mlir::arith::CmpIPredicate::slt, a, b); }
  Value lessEqual(Value a, Value b) { return compare(mlir::arith::CmpIPredicate::sle, a, b); }
  Value greater(Value a, Value b) { return compare(mlir::arith::CmpIPredicate::sgt, a, b); }
  Value lessUnsigned(Value a, Value b) { return compare(mlir::arith::CmpIPredicate::ult, a, b); }
  Value greaterEqual(Value a, Value b) { return compare(mlir::arith::CmpIPredicate::sge, a, b); }
  Value extendUnsigned(Type to, Value a) { return make<mlir::arith::ExtUIOp>(to, a); } // by zeros
  Value extendSigned(Type to, Value a) { return make<mlir::arith::ExtSIOp>(to, a); }
  Value truncate(Type to, Value a) { return make<mlir::arith::TruncIOp>(to, a); }

  // Of f32 and f64.
  Value addF(Value a, Value b) { return make<mlir::arith::AddFOp>(a, b); }
  Value subF(Value a, Value b) { return make<mlir::arith::SubFOp>(a, b); }
  Value mulF(Value a, Value b) { return make<mlir::arith::MulFOp>(a, b); }
  Value divF(Value a, Value b) { return make<mlir::arith::DivFOp>(a, b); }
  Value fma(Value a, Value b, Value c) { return make<mlir::math::FmaOp>(a, b, c); }
  Value negF(Value a) { return make<mlir::arith::NegFOp>(a); }
  Value absF(Value a) { return make<mlir::math::AbsFOp>(a); }
  Value compareF(mlir::arith::CmpFPredicate how, Value a, Value b) { return make<mlir::arith::CmpFOp>(how, a, b); }
  /// An infinity compares unordered-or-less with nothing, so a NaN is not finite either.
  Value isFinite(Value a) {
    return compareF(mlir::arith::CmpFPredicate::OLT, absF(a), f32(std::numeric_limits<float>::infinity()));
  }
  Value isNan(Value a) { return compareF(mlir::arith::CmpFPredicate::UNO, a, a); }
  Value maximumF(Value a, Value b) { return make<mlir::arith::MaximumFOp>(a, b); }

  // Of either.
  Value select(Value condition, Value a, Value b) { return make<mlir::arith::SelectOp>(condition, a, b); }
  Value cast(Type to, Value a) { return make<mlir::arith::BitcastOp>(to, a); }        // of bits
  Value castVector(Type to, Value a) { return make<mlir::vector::BitCastOp>(to, a); } // of another length
  Value broadcast(Type to, Value a) { return make<mlir::vector::BroadcastOp>(to, a); }
  Value element(Value vector, int64_t index) { return make<mlir::vector::ExtractOp>(vector, ArrayRef<int64_t>{index}); }
  Value fromElements(Type type, ValueRange elements) { return make<mlir::vector::FromElementsOp>(type, elements); }

private:
  Value compare(mlir::arith::CmpIPredicate how, Value a, Value b) { return make<mlir::arith::CmpIOp>(how, a, b); }
  template <typename Op, typename... Args> Value make(Args &&...args) {
    return Op::create(*this, std::forward<Args>(args)...);
  }
};

} // namespace altgrad

#endif // ALTGRAD_DIALECT_BUILDERS_CODEBUILDER_H
