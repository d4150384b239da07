// A guard is two vectors; its verdict is about all of their elements.
#include "codegen/common/Guard.h"

#include "codegen/numerics/Quotients.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace altgrad;

// Twice the bits of 2^leastTested, less one.
static constexpr int32_t leastBits = 2 * ((127 + leastTested) << 23) - 1;

static Value splat(CodeBuilder &builder, TypedAttr value, int64_t width) {
  return arith::ConstantOp::create(builder,
                                   DenseElementsAttr::get(VectorType::get({width}, value.getType()), Attribute(value)));
}

Guard::Guard(CodeBuilder &builder, int64_t width)
    : builder(builder), low(splat(builder, builder.getI32IntegerAttr(-1), width)),
      sum(splat(builder, builder.getF32FloatAttr(0.0f), width)) {}

void Guard::appendTo(SmallVectorImpl<Value> &arguments) { arguments.append({low, sum}); }

void Guard::takeFrom(SmallVectorImpl<Value> &emitted) {
  sum = emitted.pop_back_val();
  low = emitted.pop_back_val();
}

// Of a GPU's two elements one after the other: a comparison less.
Value Guard::holds() {
  int64_t width = cast<VectorType>(low.getType()).getNumElements();
  if (width == 2) {
    auto element = [&](Value vector, int64_t i) -> Value { return builder.element(vector, i); };
    low = builder.vectorOf(VectorType::get({1}, builder.getI32Type()),
                           ValueRange{arith::MinUIOp::create(builder, element(low, 0), element(low, 1))});
    sum = builder.vectorOf(VectorType::get({1}, builder.getF32Type()),
                           ValueRange{builder.addF(element(sum, 0), element(sum, 1))});
    width = 1;
  }
  Value large = arith::CmpIOp::create(builder, arith::CmpIPredicate::uge, low,
                                      splat(builder, builder.getI32IntegerAttr(leastBits), width));
  Value infinity = splat(builder, builder.getF32FloatAttr(std::numeric_limits<float>::infinity()), width);
  Value finite = arith::CmpFOp::create(builder, arith::CmpFPredicate::OLT, builder.absF(sum), infinity);
  Value each = builder.both(large, finite);
  Value all = vector::ReductionOp::create(builder, vector::CombiningKind::AND, each);
  Value yes = arith::ConstantIntOp::create(builder, builder.getI1Type(), 1);
  return LLVM::ExpectOp::create(builder, all, yes);
}

ResultRange Guard::choose(ValueRange fast, llvm::function_ref<SmallVector<Value>()> exact) {
  auto branch = scf::IfOp::create(builder, fast.getTypes(), holds(),
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard insertion(builder);
  builder.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(builder, fast);
  builder.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(builder, exact());
  return branch.getResults();
}
