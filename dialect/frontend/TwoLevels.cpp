// NVFP4: the scales of blocks are narrow, and below one of the tensor.
#include "dialect/frontend/BlockCodec.h"

using namespace mlir;
using namespace altgrad;

namespace {
struct TwoLevels : ScaledBlocks {
  using ScaledBlocks::ScaledBlocks;
  static constexpr CodecWord words[] = {{"current", "how its scale is found"}};
  static bool accepts(const StorageWord &word) { return word.scale == "ocp.e4m3fn"; }
  static LogicalResult verify(const SetStorage &set, const StorageWord &word) {
    if (failed(verifyBlock(set, word)))
      return failure();
    if (word.format != "ocp.e2m1" || word.stream != "copy")
      return set.error(word)
             << " has scales in ocp.e4m3fn, below one of the tensor; write copy=nvfp4 of a parameter, or "
             << word.stream << "=ocp.e2m1:16";
    return success();
  }

  // By TransformerEngine's words (common/cast/nvfp4/core_nvfp4.cuh): the tensor's scale makes its largest number that
  // of both formats together, a block's is its largest over the format's, rounded, and elements are divided by both.
  // The tensor's largest is that of the step before; what lies beyond saturates in the block's scale. `current`, and a
  // step without a rule, takes its own.
  void encode(Value values) override {
    bool ruled = bool(set.rule), delayed = ruled && !word.hasModifier("current");
    Value newest;
    if (delayed || !ruled)
      newest = set.scalar(ruled ? Access::InOut : Access::Out, Role::tensor_scale, "copy_amax", step.f32).value;
    Value unit = set.scalar(Access::Out, Role::tensor_scale, "copy_tensor_scale", step.f32).value;
    Value number = getNumber(values), largest = getLargest(number, /*finite=*/false);
    Value found = ops.reduce("found", Reduction::AbsMax, number, Scope::Tensor);
    Value amax = ops.max("amax", found, ops.f32("least", 0));
    Value scale = getFactor(delayed ? newest : amax, top * getCodecFacts(scales.type().getFormat()).most);
    Value inverse = ops.div("unit", one, scale), part = ops.f32("part", 1 / top);
    Value wanted = ops.mul("wanted", largest, ops.mul("factors", scale, part));
    NamedOpBuilder held = set.ops(scales, stream);
    scaleCode = held.quantize("code", held.collect("code.list", wanted), scales.type());
    Value level = ops.element("level", held.dequantize("code.back", scaleCode));
    Value quotient = ops.div("quotient", one, ops.mul("product", level, inverse));
    finish(ops.mul("scaled", number, ops.min("inverse", quotient, most)));
    step.write(scaleCode, scales.value);
    if (newest)
      step.write(amax, newest);
    step.write(inverse, unit);
  }
};
} // namespace

const CodecRow altgrad::twoLevels = codecRow<TwoLevels>;
