// Streams whose blocks have a scale: code times scale in, largest over largest out.
#include "codegen/frontend/SetBuilder.h"

#include "altgrad/book.h"

using namespace mlir;
using namespace altgrad;

//===-- Reading -------------------------------------------------------------===//

// FlashOptim's companding: y / (2 - |y|) of y = code / 127 is code / (254 - |code|); a
// root's square is (code / 255)^2. Products of a code and a scale in f16 are exact.
Value ScaledStream::expand(Value number, Value unit) {
  Value share = ops.mul("share.old", number, unit);
  if (word.companding == Companding::Sqrt) {
    Value root = ops.mul("root.old", share, ops.f32("255th", 1.0f / 255));
    return ops.mul("value", root, root);
  }
  Value whole = ops.f32("254.old", 254), size = ops.abs("size.old", number);
  return ops.div("value", share, ops.sub("over.old", whole, size));
}

Value ScaledStream::loadBlocks(const Argument &scales) {
  Value codes = ops.dequantize("old", target.value);
  Value units = set.ops(scales, stream).dequantize("old", scales.value);
  Value number = ops.element("number", codes), unit = ops.element("unit", units);
  bool bent = word.companding != Companding::None;
  return ops.collect("values", bent ? expand(number, unit) : ops.mul("value", number, unit));
}

//===-- Scales --------------------------------------------------------------===//

// The largest magnitude of a block. Where scales are f32, and in states, numbers that are
// not finite have no part in it, so they spoil none of their neighbours; a copy in an MX
// format says them.
Value ScaledStream::largestOf(Value number, bool finite) {
  if (finite) {
    Value size = ops.abs("size", number);
    Value infinity = ops.infinity("infinity"), zero = ops.f32("zero", 0);
    number = ops.select("counted", ops.below("finite", size, infinity), size, zero);
  }
  return ops.largest("largest", number, 1, word.elements);
}

// The scale makes the block's largest number the format's. The limits keep a scale
// and its inverse normal numbers: zeros stay zeros. Numbers are divided by a scale in
// f16 as that is read, those that are bent first by the one before it was rounded.
Value ScaledStream::anyScale(const Argument &scales, Value largest) {
  bool half = set.storage.hasHalfScales(stream), bent = word.companding != Companding::None;
  // FlashOptim's floor is 0 in f16.
  float floor = half && (!bent || word.keepPositive) ? 0x1p-24f : bent ? 1e-12f : 0x1p-120f;
  Value top = ops.f32("top", bent ? 1 : this->top);
  Value least = ops.f32("least", codec.book ? books[codec.book - 1].leastScale : floor);
  Value most = ops.f32("most", half ? 65504 : 0x1p126f);
  Value share = ops.div("share", largest, top);
  Value scale = ops.min("scale", ops.max("raised", share, least), most);
  scaleCode = ops.collect("units", scale);
  if (!half)
    return scale;
  scaleCode = set.ops(scales, stream).quantize("code", scaleCode, scales.type());
  return bent ? scale : ops.element("unit.now", ops.dequantize("held", scaleCode));
}

// The power of two at or below x comes from the codec: toward zero, in a format that
// has nothing but powers of two. Each rule is then that power or the next, times a
// constant: RCEIL of largest / the format's largest (as a product with the rounded
// inverse) the one at or above; FLOOR, CEIL and EVEN of the largest itself, over the
// power of two in the format's. A NaN stays one, 255; an infinity is 254.
Value ScaledStream::powerOfTwo(const Argument &scales, Value largest) {
  Ops ops = set.ops(scales, stream);
  ScaleRule rule = *set.storage.scaleRule(stream);
  bool ceil = rule == ScaleRule::RCeil, even = rule == ScaleRule::Even;
  float unit = ceil ? 1.0f : std::exp2f(-std::ilogb(top));
  Value x = ceil ? ops.f32("inverse", 1.0f / top) : largest;
  if (ceil)
    x = ops.mul("share", largest, x);
  Value floor = ops.cut("floor", ops.collect("floor.list", x), scales.type());
  Value below = ops.element("below", ops.dequantize("floor.back", floor));
  Value chosen = ops.mul("this", below, ops.f32("unit", unit));
  if (rule != ScaleRule::Floor) {
    Value next = ops.mul("next", below, ops.f32("twice", 2 * unit));
    // EVEN: from where the format's mantissa rounds up to the next power.
    Value from = ops.f32("from", even ? 2 - std::exp2f(-1.0f - codec.mantissaBits) : 1.0f);
    Value limit = ops.mul("limit", below, from);
    auto how = even ? arith::CmpFPredicate::OGE : arith::CmpFPredicate::OGT;
    chosen = ops.select("chosen", ops.compare("more", how, x, limit), next, chosen);
  }
  // What the format holds, so that nobody waits for the code; a NaN stays one.
  auto choose = [&](const std::string &word, arith::CmpFPredicate how, Value of, float limit, float instead) {
    Value bound = ops.f32(word + ".limit", limit), other = ops.f32(word + ".instead", instead);
    chosen = ops.select(word, ops.compare(word + ".is", how, of, bound), other, chosen);
  };
  float most = 0x1p127f, least = 0x1p-127f;
  if (!ceil) {
    choose("infinite", arith::CmpFPredicate::OEQ, x, std::numeric_limits<float>::infinity(), most);
    choose("small", arith::CmpFPredicate::OLT, chosen, least, least);
  }
  choose("large", arith::CmpFPredicate::OGT, chosen, most, most);
  scaleCode = ops.cut("code", ops.collect("code.list", chosen), scales.type());
  return chosen;
}

//===-- What is above 0 -----------------------------------------------------===//

// What a number is over its scale where it has the smallest positive code.
static float leastShare(const Format &format, Companding bent) {
  if (bent == Companding::Sqrt)
    return 1.0f / 255;
  if (bent == Companding::Softsign)
    return 1.0f / 253; // 254 x / (1 + x) is 1
  const Book &book = books[format.book ? format.book - 1 : 0];
  return format.book ? book.numbers[book.zero + 1] : decode(format, 1);
}

// Before it is divided by the scale, because a quotient may be 0. A number raised to the
// smallest one's share of the scale and a little more has its code, rounded in any way;
// and code times scale is no 0 from 2^-126 on. Zeros, negative numbers and NaNs stay.
Value ScaledStream::keptPositive(Value number, Value scale) {
  const Book &book = books[codec.book ? codec.book - 1 : 0];
  bool hasZero = codec.book ? book.numbers[book.zero] == 0 : codec.hasZero;
  if (!word.keepPositive || !hasZero)
    return number;
  Value floor = ops.f32("kept.floor", leastShare(codec, word.companding) * 1.001f);
  if (scale) {
    Value share = ops.mul("kept.share", floor, scale);
    floor = ops.max("kept.least", share, ops.f32("kept.normal", 0x1p-126f));
  }
  Value some = ops.above("kept.some", number, ops.f32("kept.none", 0));
  return ops.select("kept", some, ops.max("kept.raised", number, floor), number);
}

//===-- Writing -------------------------------------------------------------===//

// With x = number / scale: 127 * 2x / (1 + |x|) is 254 * number / (scale + |number|), and
// a root's share 255 * root / scale. Then floor(... + 0.5). What is beyond the scale, an
// infinity too, is the largest code, and a NaN 0.
Value ScaledStream::compress(Value number, Value scale) {
  bool root = word.companding == Companding::Sqrt;
  Value within = ops.min("within", number, scale), over = scale;
  if (!root) {
    within = ops.max("bounded", within, ops.neg("lowest", scale));
    over = ops.add("over", scale, ops.abs("bounded.size", within));
  }
  Value share = ops.div("bent", within, over);
  Value place = ops.mul("place", share, ops.f32("codes", root ? 255 : 254));
  Value up = ops.add("up", place, ops.f32("half", 0.5));
  // No code is beyond 255.
  auto type = TensorsType::get(step.f32.getContext(), integers(step.f32.getContext(), 8, -8));
  Value cut = ops.cut("cut", ops.collect("ups", up), type);
  Value whole = ops.element("whole", ops.dequantize("cuts", cut));
  Value above = ops.above("above", whole, up);
  Value less = ops.sub("less", whole, ops.f32("unit.code", 1));
  return ops.select("scaled", above, less, whole);
}

Value ScaledStream::inverseOf(Value scale) {
  one = ops.f32("one", 1);
  return ops.div("inverse", one, scale);
}

void ScaledStream::finish(Value scaled) {
  set.store(target, ops.collect("list", scaled), stream, OverflowMode::Saturate);
}

void ScaledStream::storeBlocks(const Argument &scales, Value value) {
  bool powers = set.storage.scaleRule(stream).has_value(), root = word.companding == Companding::Sqrt;
  Value number = ops.element(root ? "square" : "next", value);
  if (root)
    number = ops.sqrt("next", number);
  Value largest = largestOf(number, /*finite=*/!powers || stream != "copy");
  Value scale = powers ? powerOfTwo(scales, largest) : anyScale(scales, largest);
  number = keptPositive(number, scale);
  if (word.companding != Companding::None) {
    finish(compress(number, scale));
  } else {
    Value inverse = inverseOf(scale);
    // torchao's codes are those of a quotient, and so are its bytes.
    finish(codec.book ? ops.make<ScaledQuotientOp>("scaled", number, scale, inverse)
                      : ops.mul("scaled", number, inverse));
  }
  step.write(scaleCode, scales.value);
}

// The second of the two copies that TransformerEngine keeps of a weight in MXFP8.
void ScaledStream::storeColumns(SetBuilder &set, Value value) {
  Argument columns = set.list("out", "copy", "copy_columns", set.storage.type("copy"));
  Argument scales = set.scales("out", columns, "copy",
                               set.storage.columnScaleType("copy"));
  ScaledStream out(set, columns, "copy");
  Value number = out.ops.element("next", value);
  Value largest = out.ops.largest("largest", number, columnBlock, 1);
  Value inverse = out.inverseOf(out.powerOfTwo(scales, largest));
  out.finish(out.ops.mul("scaled", number, inverse));
  set.step.write(out.scaleCode, scales.value);
}

// DeepSeek's recipe, and TransformerEngine's Float8BlockScaling for weights. A scale in f32
// is TransformerEngine's: codes are of what is multiplied by the format's largest number
// over the block's, or by the power of two at or below that, and the inverse is stored.
// Blocks of zeros, and with what is not finite, have a scale of 1.
void ScaledStream::storeSquares(Value value) {
  Argument scales = set.scales("out", target, stream, set.storage.scaleType(stream));
  Value number = ops.element("next", value), factor;
  Value largest = ops.largest("largest", number, squareBlock, squareBlock);
  if (set.storage.scaleRule(stream)) {
    factor = inverseOf(powerOfTwo(scales, largest));
  } else {
    factor = factorOf(largest, top);
    if (word.pow2)
      factor = powerBelow(factor);
    scaleCode = ops.collect("units", ops.div("unit", one, factor));
  }
  step.write(scaleCode, scales.value);
  finish(ops.mul("scaled", number, factor));
}

// By the codec that has nothing but powers of two: elements are never f64.
Value ScaledStream::powerBelow(Value factor) {
  MLIRContext *context = step.f32.getContext();
  auto powers = TensorsType::get(context, FormatAttr::getNamed(context, "ocp.e8m0"));
  Value code = ops.cut("factor.code", ops.collect("factor.list", factor), powers);
  return ops.element("factor.power", ops.dequantize("factor.back", code));
}
