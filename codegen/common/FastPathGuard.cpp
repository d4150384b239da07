// A guard is two vectors; its verdict is about all of their elements.
#include "codegen/common/FastPathGuard.h"

#include "dialect/builders/Instructions.h"
#include "dialect/builders/Quotients.h"

using namespace mlir;
using namespace altgrad;

// Twice the bits of 2^leastTested, less one.
static constexpr int32_t leastBits = 2 * ((127 + leastTested) << 23) - 1;

Guard::Guard(CodeBuilder &builder, int64_t width)
    : builder(builder), low(builder.integer(VectorType::get({width}, builder.getI32Type()), -1)),
      sum(builder.f32(0, low.getType())) {}

void Guard::appendTo(SmallVectorImpl<Value> &arguments) { arguments.append({low, sum}); }

void Guard::popFrom(SmallVectorImpl<Value> &emitted) {
  sum = emitted.pop_back_val();
  low = emitted.pop_back_val();
}

// Of a GPU's two elements one after the other: a comparison less.
Value Guard::isValid() {
  int64_t width = cast<VectorType>(low.getType()).getNumElements();
  if (width == 2) {
    auto element = [&](Value vector, int64_t i) -> Value { return builder.element(vector, i); };
    low = builder.fromElements(VectorType::get({1}, builder.getI32Type()),
                               ValueRange{arith::MinUIOp::create(builder, element(low, 0), element(low, 1))});
    sum = builder.fromElements(VectorType::get({1}, builder.getF32Type()),
                               ValueRange{builder.addF(element(sum, 0), element(sum, 1))});
    width = 1;
  }
  Value large =
      arith::CmpIOp::create(builder, arith::CmpIPredicate::uge, low, builder.integer(low.getType(), leastBits));
  Value infinity = builder.f32(std::numeric_limits<float>::infinity(), low.getType());
  Value finite = builder.compareF(arith::CmpFPredicate::OLT, builder.absF(sum), infinity);
  Value each = builder.bitAnd(large, finite);
  Value all = vector::ReductionOp::create(builder, vector::CombiningKind::AND, each);
  return LLVM::ExpectOp::create(builder, all, builder.constBool());
}

SmallVector<Value> Guard::choose(ValueRange fast, llvm::function_ref<SmallVector<Value>()> exact) {
  return branch(
      builder, isValid(), fast.getTypes(), [&] { return SmallVector<Value>(fast); }, exact);
}
