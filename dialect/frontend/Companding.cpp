// FlashOptim's codes of bent numbers, 2x / (1 + |x|) or the root, under a scale for each block.
#include "dialect/frontend/BlockCodec.h"

using namespace mlir;
using namespace altgrad;

namespace {
struct Companded : ScaledBlocks {
  using ScaledBlocks::ScaledBlocks;
  static constexpr StringLiteral how = "how numbers are bent before they are codes";
  static constexpr CodecWord words[] = {
      {"softsign", how, "codes of a state in int8, whose scales are f32 or f16, as m=int8:32:f16,softsign"},
      {"sqrt", how, "codes of a state in uint8, whose scales are f32 or f16, as v=uint8:32:f16,sqrt"}};
  static bool accepts(const StorageWord &word) {
    bool stored = word.block && word.stream != "copy" && word.scale != "ocp.e8m0";
    return stored && ((word.hasModifier("softsign") && word.format == "int8") ||
                      (word.hasModifier("sqrt") && word.format == "uint8"));
  }
  static LogicalResult verify(const SetStorage &set, const StorageWord &word) {
    if (word.definesRounding())
      return set.error(word) << " says " << (word.hasModifier("sqrt") ? "sqrt" : "softsign")
                             << " and how codes are rounded, which FlashOptim's are to the nearest, halves up";
    return ScaledBlocks::verify(set, word);
  }

  // y / (2 - |y|) of y = code / 127 is code / (254 - |code|); a root's square is (code / 255)^2. Products of a code
  // and a scale in f16 are exact.
  Value expand(Value number, Value unit) override {
    Value share = ops.mul("share.old", number, unit);
    if (root) {
      Value old = ops.mul("root.old", share, ops.f32("255th", 1.0f / 255));
      return ops.mul("value", old, old);
    }
    Value whole = ops.f32("254.old", 254), size = ops.abs("size.old", number);
    return ops.div("value", share, ops.sub("over.old", whole, size));
  }
  Value getNumber(Value values) override {
    Value number = ops.element(root ? "square" : "next", values);
    return root ? ops.sqrt("next", number) : number;
  }
  // Numbers are divided by the scale before it was rounded. FlashOptim's floor is 0 in f16.
  Value chooseScale(Value number) override {
    float floor = word.scale == "f16" && word.hasModifier("keep_positive") ? 0x1p-24f : 1e-12f;
    return getScale(getLargest(number, /*finite=*/true), 1, floor);
  }
  // 254 x / (1 + x) is 1.
  float leastShare() const override { return root ? 1.0f / 255 : 1.0f / 253; }
  // With x = number / scale: 127 * 2x / (1 + |x|) is 254 * number / (scale + |number|), and a root's share
  // 255 * root / scale. Then floor(... + 0.5). What is beyond the scale, an infinity too, is the largest code, and a
  // NaN 0.
  Value getShare(Value number, Value scale) override {
    Value within = ops.min("within", number, scale), over = scale;
    if (!root) {
      within = ops.max("bounded", within, ops.neg("lowest", scale));
      over = ops.add("over", scale, ops.abs("bounded.size", within));
    }
    Value share = ops.div("bent", within, over);
    Value onGrid = ops.mul("place", share, ops.f32("codes", root ? 255 : 254));
    return ops.floor("scaled", ops.add("up", onGrid, ops.f32("half", 0.5)));
  }
  void encode(Value values) override {
    ScaledBlocks::encode(values);
    code.getDefiningOp<QuantizeOp>().setCompanding(root ? Companding::Sqrt : Companding::Softsign);
  }
  const bool root = word.hasModifier("sqrt");
};
} // namespace

const CodecRow altgrad::companding = codecRow<Companded>;
