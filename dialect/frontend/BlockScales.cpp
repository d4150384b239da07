// Lists whose blocks have a scale: code times scale in, largest over largest out.
#include "dialect/frontend/SetBuilder.h"

using namespace mlir;
using namespace altgrad;

TensorCodec::TensorCodec(SetBuilder &set, Access access, Role role, StringRef key, StringRef stream, bool columns)
    : target(set.list(access, role, key, set.storage.type(stream))), set(set), step(set.step), stream(stream),
      word(set.storage.word(stream)), codec(getCodecFacts(target.type().getFormat())), top(codec.most),
      ops(set.ops(target, stream)) {
  if (TensorsType type = set.storage.scaleType(stream, columns))
    scales = set.scales(access, target, stream, type);
  if (stream == "param" && set.storage.splitsMaster())
    remainder = set.list(access, Role::remainder, "remainder", set.storage.remainderType());
}

//===-- Reading -------------------------------------------------------------===//

// FlashOptim's companding: y / (2 - |y|) of y = code / 127 is code / (254 - |code|); a
// root's square is (code / 255)^2. Products of a code and a scale in f16 are exact.
Value TensorCodec::expand(Value number, Value unit) {
  Value share = ops.mul("share.old", number, unit);
  if (word.companding == Companding::Sqrt) {
    Value root = ops.mul("root.old", share, ops.f32("255th", 1.0f / 255));
    return ops.mul("value", root, root);
  }
  Value whole = ops.f32("254.old", 254), size = ops.abs("size.old", number);
  return ops.div("value", share, ops.sub("over.old", whole, size));
}

Value TensorCodec::load() {
  if (remainder.value)
    return ops.make<JoinOp>("old", RealsType::get(step.f32.getContext()), target.value, remainder.value);
  Value codes = ops.dequantize("old", target.value);
  if (!scales.value)
    return codes;
  Value units = set.ops(scales, stream).dequantize("old", scales.value);
  Value number = ops.element("number", codes), unit = ops.element("unit", units);
  return ops.collect("values", word.companding ? expand(number, unit) : ops.mul("value", number, unit));
}

//===-- Scales --------------------------------------------------------------===//

// The largest magnitude of a block. Where scales are f32, and in states, numbers that are
// not finite have no part in it, so they spoil none of their neighbours; a copy in an MX
// format says them.
Value TensorCodec::getLargest(Value number, bool finite) {
  if (finite) {
    Value size = ops.abs("size", number);
    Value infinity = ops.infinity("infinity"), zero = ops.f32("zero", 0);
    number = ops.select("counted", ops.below("finite", size, infinity), size, zero);
  }
  return ops.largest("largest", number, scales.type().getBlock());
}

// The scale makes the block's largest number the format's. The limits keep a scale
// and its inverse normal numbers: zeros stay zeros. Numbers are divided by a scale in
// f16 as that is read, those that are bent first by the one before it was rounded.
Value TensorCodec::anyScale(Value largest) {
  bool half = word.scale == "f16", bent = word.companding.has_value();
  // FlashOptim's floor is 0 in f16.
  float floor = half && (!bent || word.keepPositive) ? 0x1p-24f : bent ? 1e-12f : codec.leastScale;
  Value top = ops.f32("top", bent ? 1 : this->top);
  Value least = ops.f32("least", floor);
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
Value TensorCodec::powerOfTwo(Value largest) {
  NamedOpBuilder ops = set.ops(scales, stream);
  ScaleRule rule = word.rule.value_or(ScaleRule::RCeil);
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
    unsigned mantissa = target.type().getFormat().getMantissa();
    // EVEN: from where the format's mantissa rounds up to the next power.
    Value from = ops.f32("from", even ? 2 - std::exp2f(-1.0f - mantissa) : 1.0f);
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
static float leastShare(const CodecFacts &codec, std::optional<Companding> bent) {
  if (bent == Companding::Sqrt)
    return 1.0f / 255;
  if (bent == Companding::Softsign)
    return 1.0f / 253; // 254 x / (1 + x) is 1
  return codec.least;
}

// Before it is divided by the scale, because a quotient may be 0. A number raised to the
// smallest one's share of the scale and a little more has its code, rounded in any way;
// and code times scale is no 0 from 2^-126 on. Zeros, negative numbers and NaNs stay.
Value TensorCodec::keptPositive(Value number, Value scale) {
  if (!word.keepPositive || !codec.zero)
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
Value TensorCodec::compress(Value number, Value scale) {
  bool root = word.companding == Companding::Sqrt;
  Value within = ops.min("within", number, scale), over = scale;
  if (!root) {
    within = ops.max("bounded", within, ops.neg("lowest", scale));
    over = ops.add("over", scale, ops.abs("bounded.size", within));
  }
  Value share = ops.div("bent", within, over);
  Value place = ops.mul("place", share, ops.f32("codes", root ? 255 : 254));
  return ops.floor("scaled", ops.add("up", place, ops.f32("half", 0.5)));
}

void TensorCodec::finish(Value scaled) {
  set.store(target, ops.collect("list", scaled), stream, OverflowMode::Saturate);
}

// Squares are DeepSeek's recipe, and TransformerEngine's Float8BlockScaling for weights: codes are of what is
// multiplied by the format's largest number over the square's, or by the power of two at or below that, and the inverse
// is stored. Squares of zeros, and with what is not finite, have a scale of 1.
void TensorCodec::storeBlocks(Value value) {
  bool powers = word.scale == "ocp.e8m0", root = word.companding == Companding::Sqrt;
  Value number = ops.element(root ? "square" : "next", value), scale, factor;
  if (root)
    number = ops.sqrt("next", number);
  Value largest = getLargest(number, /*finite=*/!word.hasSquareBlock() && (!powers || stream != "copy"));
  if (word.hasSquareBlock() && !powers) {
    factor = getFactor(largest, top);
    scaleCode = ops.collect("units", ops.div("unit", one, factor));
  } else {
    scale = powers ? powerOfTwo(largest) : anyScale(largest);
  }
  number = keptPositive(number, scale);
  if (!factor && !word.companding)
    factor = ops.div("inverse", ops.f32("one", 1), scale);
  // torchao's codes are those of a quotient, and so are its bytes.
  finish(word.companding ? compress(number, scale)
         : codec.table   ? ops.make<ScaledQuotientOp>("scaled", number, scale, factor)
                         : ops.mul("scaled", number, factor));
  step.write(scaleCode, scales.value);
}

// What has no scale keeps what is above 0, too.
void TensorCodec::store(Value value) {
  if (word.tensorScale != TensorScale::None)
    return storeTensorScaled(value);
  if (word.scale == "ocp.e4m3fn")
    return storeTwoLevels(value);
  if (scales.value)
    return storeBlocks(value);
  if (word.keepPositive)
    if (Value number = ops.element("next", value), kept = keptPositive(number, {}); kept != number)
      value = ops.collect("kept.list", kept);
  if (!remainder.value) {
    code = set.store(target, value, stream);
    return;
  }
  auto parts = ops.several<SplitOp>({target.name + ".code", remainder.name + ".code"}, target.value.getType(),
                                    remainder.value.getType(), value);
  step.write(parts.getUpper(), target.value);
  step.write(parts.getLower(), remainder.value);
}
