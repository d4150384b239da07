// The table of codecs, and those without a scale.
#include "dialect/frontend/BlockCodec.h"

using namespace mlir;
using namespace altgrad;

namespace {
struct Plain : BlockCodec {
  using BlockCodec::BlockCodec;
  static constexpr StringLiteral round = "how it rounds", beyond = "what a number beyond its format becomes";
  static constexpr CodecWord words[] = {{"nearest_even", round},      {"toward_zero", round},
                                        {"stochastic", round},        {"stochastic32", round},
                                        {"reference", "'reference'"}, {"saturate", beyond},
                                        {"nonfinite", beyond},        {"keep_positive", "'keep_positive'"},
                                        {"min_size", "'min_size'", "", true}};
  static bool accepts(const StorageWord &) { return true; }
};

// A master that is the parameter, its upper half, and a remainder beside it.
struct SplitMaster : BlockCodec {
  SplitMaster(SetBuilder &set, const Argument &target, Access access, StringRef stream)
      : BlockCodec(set, target, access, stream) {
    StringRef half = set.storage.word("master").format == "bf16+i16" ? "int16" : "int8";
    remainder = set.list(access, Role::remainder, "remainder", set.storage.tensors(half));
  }
  static bool accepts(const StorageWord &word) { return word.format == "bf16+i16" || word.format == "bf16+i8"; }
  // The parameter is rounded as the master is split.
  static LogicalResult verify(const SetStorage &set, const StorageWord &word) {
    if (StringRef param = set.formatName("param"); param != "bf16")
      return set.error(word) << " of a parameter in " << param << "; the upper half of an f32 is a bf16";
    if (set.word("param").definesRounding())
      return set.error(word) << " says how 'param' is rounded, and so does its own word";
    return success();
  }
  Value decode() override {
    return ops.make<JoinOp>("old", RealsType::get(target.value.getContext()), target.value, remainder.value);
  }
  void encode(Value values) override {
    auto parts = ops.makeMany<SplitOp>({target.name + ".code", remainder.name + ".code"}, target.value.getType(),
                                       remainder.value.getType(), values);
    step.write(parts.getUpper(), target.value);
    step.write(parts.getLower(), remainder.value);
  }
  Argument remainder;
};
} // namespace

const CodecRow altgrad::plain = codecRow<Plain>, altgrad::splitMaster = codecRow<SplitMaster>;

ArrayRef<const CodecRow *> altgrad::getCodecs() {
  static constexpr const CodecRow *codecs[] = {&companding, &tensorScale,  &twoLevels,   &powersOfTwo,
                                               &squares,    &scaledBlocks, &splitMaster, &plain};
  return codecs;
}

const CodecRow &altgrad::getCodec(const StorageWord &word) {
  return **llvm::find_if(getCodecs(), [&](const CodecRow *codec) { return codec->accepts(word); });
}

const CodecWord *CodecRow::find(StringRef modifier) const {
  for (const CodecWord &one : words)
    if (modifier == one.word || (one.counts && modifier.split(':').first == one.word))
      return &one;
  return nullptr;
}

const CodecWord *altgrad::findCodecWord(StringRef modifier) {
  for (const CodecRow *codec : getCodecs())
    if (const CodecWord *word = codec->find(modifier))
      return word;
  return nullptr;
}

// What has no scale keeps what is above 0, too.
void BlockCodec::encode(Value values) {
  if (word.hasModifier("keep_positive"))
    if (Value number = ops.element("next", values), raised = preservePositive(number, {}); raised != number)
      values = ops.collect("kept.list", raised);
  code = set.writeRounded(target, values, stream);
}

// Before it is divided by the scale, because a quotient may be 0. A number raised to the smallest one's share of the
// scale and a little more has its code, rounded in any way; and code times scale is no 0 from 2^-126 on. Zeros,
// negative numbers and NaNs stay.
Value BlockCodec::preservePositive(Value number, Value scale) {
  if (!word.hasModifier("keep_positive") || !facts.zero)
    return number;
  Value floor = ops.f32("kept.floor", leastShare() * 1.001f);
  if (scale) {
    Value share = ops.mul("kept.share", floor, scale);
    floor = ops.max("kept.least", share, ops.f32("kept.normal", 0x1p-126f));
  }
  Value some = ops.above("kept.some", number, ops.f32("kept.none", 0));
  return ops.select("kept", some, ops.max("kept.raised", number, floor), number);
}

// `top` over the largest number, or the power of two at or below that where the word says so; 1 where the number is 0
// or not finite.
Value BlockCodec::getFactor(Value largest, float top) {
  Value none = ops.f32("none", 0);
  one = ops.f32("one", 1);
  Value infinity = ops.infinity("infinity");
  most = ops.f32("most", std::numeric_limits<float>::max());
  Value whole = ops.f32("top", top), some = ops.above("some", largest, none);
  Value known = ops.logicalAnd("known", some, ops.below("finite", largest, infinity));
  Value share = ops.div("share", whole, largest);
  Value factor = ops.select("factor", known, ops.min("bounded", share, most), one);
  return word.hasModifier("pow2") ? ops.make<BinadeOp>("power", factor) : factor;
}

void BlockCodec::finish(Value scaled) {
  code = set.writeRounded(target, ops.collect("list", scaled), stream, OverflowMode::Saturate);
}
