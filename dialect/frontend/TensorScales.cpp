// Copies with one scale for a tensor: by the largest numbers of past steps, which is
// TransformerEngine's delayed scaling, by this step's, or by a bound of it; and copies
// whose blocks have narrow scales below one of the tensor, as NVFP4.
#include "dialect/frontend/SetBuilder.h"

using namespace mlir;
using namespace altgrad;

// `top` over the largest number, or the power of two at or below that where the word says so; 1 where the number is 0
// or not finite.
Value TensorCodec::getFactor(Value largest, float top) {
  Value none = ops.f32("none", 0);
  one = ops.f32("one", 1);
  Value infinity = ops.infinity("infinity");
  most = ops.f32("most", std::numeric_limits<float>::max());
  Value whole = ops.f32("top", top), some = ops.above("some", largest, none);
  Value known = ops.both("known", some, ops.below("finite", largest, infinity));
  Value share = ops.div("share", whole, largest);
  Value factor = ops.select("factor", known, ops.min("bounded", share, most), one);
  return word.pow2 ? ops.make<BinadeOp>("power", factor) : factor;
}

// The largest finite one of the last steps' largest numbers, which move on by one. Of
// one step alone it is that, whatever it is.
Value TensorCodec::largestOfHistory(Value newest) {
  if (word.history == 1)
    return newest;
  Value none = ops.f32("past.none", 0), end = ops.infinity("past.end"), most = none, held = newest;
  for (unsigned past = 0; past < word.history; ++past) {
    std::string at = "past." + std::to_string(past);
    if (past) {
      Value older = set.scalar(Access::InOut, Role::tensor_scale, "copy_amax_" + std::to_string(past), step.f32).value;
      step.write(held, older);
      held = older;
    }
    Value counted = ops.select(at + ".or", ops.below(at + ".is", held, end), held, none);
    most = ops.max(at, most, counted);
  }
  return most;
}

// The maximum found now applies from the next step on, except for `current`. A step without a rule returns it, too.
void TensorCodec::storeTensorScaled(Value value) {
  bool ruled = bool(set.rule), current = word.tensorScale == TensorScale::Current;
  Value number = ops.element("next", value);
  Value found = ops.reduce("found", Reduction::AbsMax, number, Scope::Tensor);
  Value largest = ops.max("largest", found, ops.f32("least", 0)), most = largest, newest;
  if (!current || !ruled)
    newest = set.scalar(current ? Access::Out : Access::InOut, Role::tensor_scale, "copy_amax", step.f32).value;
  if (word.tensorScale == TensorScale::Delayed)
    most = largestOfHistory(newest);
  else if (word.tensorScale == TensorScale::Bounded)
    most = boundOfLargest(newest);
  Value unit = set.scalar(Access::Out, Role::tensor_scale, "copy_scale", step.f32).value;
  Value scale = getFactor(most, top), inverse = ops.div("unit", one, scale);
  finish(ops.mul("scaled", number, scale));
  if (newest)
    step.write(largest, newest);
  step.write(inverse, unit);
}

// By TransformerEngine's words (common/cast/nvfp4/core_nvfp4.cuh): the tensor's scale
// makes its largest number that of both formats together, a block's is its largest over
// the format's, rounded, and elements are divided by both. The tensor's largest is that
// of the step before; what lies beyond saturates in the block's scale. A step without a
// rule takes its own.
void TensorCodec::storeTwoLevels(Value value) {
  bool ruled = bool(set.rule);
  Value newest = set.scalar(ruled ? Access::InOut : Access::Out, Role::tensor_scale, "copy_amax", step.f32).value;
  Value unit = set.scalar(Access::Out, Role::tensor_scale, "copy_tensor_scale", step.f32).value;
  Value number = ops.element("next", value), largest = getLargest(number, /*finite=*/false);
  Value found = ops.reduce("found", Reduction::AbsMax, number, Scope::Tensor);
  Value amax = ops.max("amax", found, ops.f32("least", 0));
  Value scale = getFactor(ruled ? newest : amax, top * getCodecFacts(scales.type().getFormat()).most);
  Value inverse = ops.div("unit", one, scale), part = ops.f32("part", 1 / top);
  Value wanted = ops.mul("wanted", largest, ops.mul("factors", scale, part));
  NamedOpBuilder held = set.ops(scales, stream);
  Value code = held.quantize("code", held.collect("code.list", wanted), scales.type());
  Value level = ops.element("level", held.dequantize("code.back", code));
  Value quotient = ops.div("quotient", one, ops.mul("product", level, inverse));
  finish(ops.mul("scaled", number, ops.min("inverse", quotient, most)));
  step.write(code, scales.value);
  step.write(amax, newest);
  step.write(inverse, unit);
}

//===-- How far a step of Adam can take a parameter -------------------------===//

// |1 - lr decay| times the largest number before, and lr C_t, where by Cauchy and Schwarz
//   C_t = (1 - beta1) / (1 - beta1^t) sqrt((1 - beta2^t) / (1 - beta2) (1 - r^t) / (1 - r)),
// r = beta1^2 / beta2. What is added to both is for the rounding of 2^24 steps.
Value TensorCodec::boundOfLargest(Value newest) {
  NamedOpBuilder ops = this->ops.named(target.name + ".bound.");
  Value one = ops.f64("one", 1), count = set.count;
  // (1 - x^t) and (1 - x).
  auto parts = [&](const std::string &word, Value x) {
    Value sum = ops.sub(word + ".sum", one, ops.make<math::FPowIOp>(word + ".power", x, count));
    return std::make_pair(sum, ops.sub(word + ".share", one, x));
  };
  Value beta1 = set.hypers["beta1"], beta2 = set.hypers["beta2"], lr = set.hypers["lr"];
  auto [sum1, share1] = parts("first", beta1);
  auto [sum2, share2] = parts("second", beta2);
  auto [sum, share] = parts("both", ops.div("r", ops.mul("square", beta1, beta1), beta2));
  Value high = ops.div("long", sum2, share2), low = ops.div("short", sum, share);
  Value root = ops.sqrt("root", ops.mul("under", high, low));
  Value most = ops.mul("most", ops.div("rate", share1, sum1), root);
  Value slack = ops.f64("slack", 1.015625), rate = ops.abs("lr", lr);
  Value move = ops.mul("move", ops.mul("moves", rate, most), slack);
  Value kept = ops.wide("before", newest);
  if (set.storage.shrinks) {
    Value less = ops.sub("less", one, ops.mul("decay", lr, set.hypers["decay"]));
    kept = ops.mul("kept", kept, ops.abs("factor", less));
  }
  Value held = ops.mul("held", kept, ops.f64("little", 1.000001));
  return ops.narrow("largest", ops.add("all", held, move));
}
