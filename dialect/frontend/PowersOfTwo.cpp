// MX formats: the scale of a block is a power of two, by one of four rules; and beside blocks of rows, those of
// columns.
#include "dialect/frontend/BlockCodec.h"

using namespace mlir;
using namespace altgrad;

namespace {
struct PowersOfTwo : ScaledBlocks {
  using ScaledBlocks::ScaledBlocks;
  static constexpr StringLiteral rule = "by which rule a scale is chosen", of = "scales in ocp.e8m0, as copy=mxfp8",
                                 both = "a copy in blocks of 32 with scales in ocp.e8m0, as copy=mxfp8,both; a square "
                                        "has one scale for both directions";
  static constexpr CodecWord words[] = {
      {"rceil", rule, of}, {"floor", rule, of}, {"ceil", rule, of}, {"even", rule, of}, {"both", "'both'", both}};
  static bool accepts(const StorageWord &word) { return word.scale == "ocp.e8m0"; }
  static LogicalResult verify(const SetStorage &set, const StorageWord &word) {
    bool both = word.hasModifier("both");
    if (both && (word.stream != "copy" || word.block != "32"))
      return set.refuse(word, "both");
    if (both && !set.rule)
      return set.error(word) << " says 'both' of a set without a rule; only the sweep of an update sees columns";
    return failure((both && failed(verifyTile(" says 'both'", set, word))) || failed(verifyBlock(set, word)));
  }

  // The second copy is that of columns, which TransformerEngine keeps of a weight in MXFP8 beside that of rows.
  void encode(Value values) override {
    ScaledBlocks::encode(values);
    if (word.hasModifier("both") && target.key == "copy") {
      Argument columns = set.list(Access::Out, Role::copy, "copy_columns", target.type());
      PowersOfTwo(set, columns, Access::Out, stream, /*columns=*/true).encode(values);
    }
  }
  Value chooseScale(Value number) override;
};
} // namespace

const CodecRow altgrad::powersOfTwo = codecRow<PowersOfTwo>;

// The power of two at or below x comes from the codec: toward zero, in a format that has nothing but powers of two.
// Each rule is then that power or the next, times a constant: RCEIL of largest / the format's largest (as a product
// with the rounded inverse) the one at or above; FLOOR, CEIL and EVEN of the largest itself, over the power of two in
// the format's. A NaN stays one, 255; an infinity is 254: a copy says them, in states they have no part in the largest.
Value PowersOfTwo::chooseScale(Value number) {
  Value largest = getLargest(number, /*finite=*/stream != "copy");
  NamedOpBuilder ops = set.ops(scales, stream);
  bool floors = word.hasModifier("floor"), even = word.hasModifier("even"),
       ceil = !floors && !even && !word.hasModifier("ceil");
  float unit = ceil ? 1.0f : std::exp2f(-std::ilogb(top));
  Value x = ceil ? ops.f32("inverse", 1.0f / top) : largest;
  if (ceil)
    x = ops.mul("share", largest, x);
  Value floor = ops.quantizeTowardZero("floor", ops.collect("floor.list", x), scales.type());
  Value below = ops.element("below", ops.dequantize("floor.back", floor));
  Value chosen = ops.mul("this", below, ops.f32("unit", unit));
  if (!floors) {
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
  scaleCode = ops.quantizeTowardZero("code", ops.collect("code.list", chosen), scales.type());
  return chosen;
}
