// upper_code, lower_code, join_codes ==> shifts and additions.
#include "codegen/numerics/Numerics.h"

#include "codegen/numerics/Bits.h"

using namespace mlir;
using namespace altgrad;

static Value bitsOfNumber(const Bits &bits, Value number) {
  return bits.cast(canonicalNan(bits.b, number), bits.type);
}

static Value truncate(const Bits &bits, Value word) {
  return arith::TruncIOp::create(bits.b, bits.of(bits.b.getI16Type()), word);
}

// The half that is added carries where the lower half is negative.
Value altgrad::upperHalf(ImplicitLocOpBuilder &b, UpperCodeOp op) {
  Bits bits{b, op.getNumber().getType()};
  Value word = bitsOfNumber(bits, op.getNumber());
  return truncate(bits, bits.right(bits.add(word, bits.constant(0x8000u)), 16));
}

Value altgrad::lowerHalf(ImplicitLocOpBuilder &b, LowerCodeOp op) {
  Bits bits{b, op.getNumber().getType()};
  return truncate(bits, bitsOfNumber(bits, op.getNumber()));
}

// What no number was split into is a NaN: the upper half then counts alone.
static Value join(const Bits &bits, Value upper, Value lower) {
  Value word = bits.add(upper, lower);
  Value nan = bits.above(bits.both(word, bits.constant(0x7fffffffu)),
                         bits.constant(f32Infinity));
  return bits.cast(bits.choose(nan, upper, word), bits.f32());
}

// A GPU has registers of 16 bits on paper alone: words hold two codes each.
static Value joinWords(ImplicitLocOpBuilder &b, JoinCodesOp op) {
  auto type = cast<VectorType>(op.getNumber().getType());
  Bits bits{b, b.getF32Type()};
  auto wordsOf = [&](Value codes) -> Value {
    return vector::BitCastOp::create(
        b, VectorType::get({type.getNumElements() / 2}, bits.type), codes);
  };
  Value upper = wordsOf(op.getUpper()), lower = wordsOf(op.getLower());
  Value sixteen = bits.constant(16u);
  SmallVector<Value> numbers;
  for (int64_t i = 0; i < type.getNumElements() / 2; ++i) {
    Value high = vector::ExtractOp::create(b, upper, ArrayRef<int64_t>{i});
    Value low = vector::ExtractOp::create(b, lower, ArrayRef<int64_t>{i});
    Value even = arith::ShRSIOp::create(b, bits.left(low, 16), sixteen);
    Value odd = arith::ShRSIOp::create(b, low, sixteen);
    numbers.push_back(join(bits, bits.left(high, 16), even));
    numbers.push_back(
        join(bits, bits.both(high, bits.constant(0xffff0000u)), odd));
  }
  return vector::FromElementsOp::create(b, type, numbers);
}

Value altgrad::joinHalves(ImplicitLocOpBuilder &b, JoinCodesOp op,
                          bool byWords) {
  auto vector = dyn_cast<VectorType>(op.getNumber().getType());
  if (byWords && vector && vector.getNumElements() % 2 == 0)
    return joinWords(b, op);
  Bits bits{b, op.getNumber().getType()};
  Value upper = arith::ExtUIOp::create(b, bits.type, op.getUpper());
  Value lower = arith::ExtSIOp::create(b, bits.type, op.getLower());
  return join(bits, bits.left(upper, 16), lower);
}
