// Copies that are multiplied by the format's largest number over another one: over a tensor's, by past steps'
// (TransformerEngine's delayed scaling), by this step's, or by a bound of it; or over that of a square.
#include "dialect/frontend/BlockCodec.h"

using namespace mlir;
using namespace altgrad;

namespace {
struct TensorScale : BlockCodec {
  using BlockCodec::BlockCodec;
  static constexpr StringLiteral how = "how its scale is found",
                                 of = "the one scale of a copy without blocks; write copy=ocp.e4m3fn,delayed",
                                 pow2 = "the scale of a copy or of its squares, as copy=ocp.e4m3fn,delayed,pow2";
  static constexpr CodecWord words[] = {
      {"delayed", how, of, true}, {"current", how, of}, {"bounded", how, of}, {"pow2", "'pow2'", pow2}};
  static bool accepts(const StorageWord &word) {
    bool scaled = llvm::any_of(word.modifiers, [](StringRef modifier) { return modifier.starts_with("delayed"); });
    return word.stream == "copy" && !word.block &&
           (scaled || word.hasModifier("current") || word.hasModifier("bounded"));
  }
  static LogicalResult verify(const SetStorage &set, const StorageWord &word);
  void encode(Value values) override;

  // Those that a delayed scale looks back.
  static unsigned countSteps(StringRef modifier) {
    unsigned steps = 1;
    return modifier.consume_front("delayed:") && (modifier.getAsInteger(10, steps) || steps > 64) ? 0 : steps;
  }
  Value largestOfHistory(Value newest);
  Value boundOfLargest(Value newest);
};

// DeepSeek's recipe, and TransformerEngine's Float8BlockScaling for weights: the inverse is stored. Squares of zeros,
// and with what is not finite, have a scale of 1.
struct Squares : ScaledBlocks {
  using ScaledBlocks::ScaledBlocks;
  static constexpr CodecWord words[] = {{"pow2", "'pow2'"}};
  static bool accepts(const StorageWord &word) { return word.hasSquareBlock(); }
  Value chooseScale(Value number) override {
    Value factor = getFactor(getLargest(number, /*finite=*/false), top);
    scaleCode = ops.collect("units", ops.div("unit", one, factor));
    return factor;
  }
  Value getShare(Value number, Value factor) override { return ops.mul("scaled", number, factor); }
};
} // namespace

const CodecRow altgrad::tensorScale = codecRow<TensorScale>, altgrad::squares = codecRow<Squares>;

// A rule says that it moves a parameter as Adam or as AdamW does, with whatever gradient: {altgrad.step_bound =
// "adam"}.
static StringRef getStepBound(RuleOp rule) {
  auto bound = rule->getAttrOfType<StringAttr>("altgrad.step_bound");
  return bound ? bound.getValue() : "";
}

static LogicalResult verifyBounded(const SetStorage &set, const StorageWord &word) {
  RuleOp rule = set.rule;
  StringRef bound = getStepBound(rule), master = set.word("master").format;
  auto isKnown = [&](StringRef name) {
    return llvm::any_of(rule.getByRole(Role::hyper), [&](BlockArgument one) { return rule.getName(one) == name; });
  };
  if ((bound != "adam" && (bound != "adamw" || !isKnown("decay"))) || rule.getByRole(Role::step).empty() ||
      !llvm::all_of(ArrayRef<StringRef>{"lr", "beta1", "beta2"}, isKnown))
    return set.error(word)
           << " of rule '" << rule.getSymName()
           << "', whose steps have no bound that is known; adam's and adamw's have one, write delayed or current";
  for (BlockArgument state : set.states)
    if (StringRef name = rule.getName(state); set.formatName(name) != "f32")
      return set.error(word) << " and state '" << name << "' in " << set.formatName(name)
                             << "; the bound is of states in f32";
  if (set.inRungs() || (master != "f32" && master != "bf16+i16" && set.formatName("param") != "f32"))
    return set.error(word) << " of a parameter in " << set.formatName(set.inRungs() ? "rungs" : "param")
                           << "; the bound is of parameters or masters in f32";
  return success();
}

LogicalResult TensorScale::verify(const SetStorage &set, const StorageWord &word) {
  for (StringRef modifier : word.modifiers)
    if (!countSteps(modifier))
      return set.error(word, modifier) << " says '" << modifier << "'; a delayed scale looks back 1 to 64 steps";
  if (word.format == "f32")
    return set.error(word) << " has a scale, and f32 needs none";
  if (!set.rule && !word.hasModifier("current"))
    return set.error(word) << " has a scale by the step before, and gradients have none; write current";
  return word.hasModifier("bounded") ? verifyBounded(set, word) : success();
}

// The largest finite one of the last steps' largest numbers, which move on by one. Of
// one step alone it is that, whatever it is.
Value TensorScale::largestOfHistory(Value newest) {
  unsigned history = 1;
  for (StringRef modifier : word.modifiers)
    history = std::max(history, countSteps(modifier));
  if (history == 1)
    return newest;
  Value none = ops.f32("past.none", 0), end = ops.infinity("past.end"), most = none, held = newest;
  for (unsigned past = 0; past < history; ++past) {
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
void TensorScale::encode(Value values) {
  bool ruled = bool(set.rule), current = word.hasModifier("current");
  Value number = ops.element("next", values);
  Value found = ops.reduce("found", Reduction::AbsMax, number, Scope::Tensor);
  Value largest = ops.max("largest", found, ops.f32("least", 0)), most = largest, newest;
  if (!current || !ruled)
    newest = set.scalar(current ? Access::Out : Access::InOut, Role::tensor_scale, "copy_amax", step.f32).value;
  if (!current)
    most = word.hasModifier("bounded") ? boundOfLargest(newest) : largestOfHistory(newest);
  Value unit = set.scalar(Access::Out, Role::tensor_scale, "copy_scale", step.f32).value;
  Value scale = getFactor(most, top), inverse = ops.div("unit", one, scale);
  finish(ops.mul("scaled", number, scale));
  if (newest)
    step.write(largest, newest);
  step.write(inverse, unit);
}

//===-- How far a step of Adam can take a parameter -------------------------===//

// |1 - lr decay| times the largest number before, and lr C_t, where by Cauchy and Schwarz
//   C_t = (1 - beta1) / (1 - beta1^t) sqrt((1 - beta2^t) / (1 - beta2) (1 - r^t) / (1 - r)),
// r = beta1^2 / beta2. What is added to both is for the rounding of 2^24 steps.
Value TensorScale::boundOfLargest(Value newest) {
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
  Value largestBefore = ops.extend("before", newest);
  if (getStepBound(set.rule) == "adamw") {
    Value less = ops.sub("less", one, ops.mul("decay", lr, set.hypers["decay"]));
    largestBefore = ops.mul("kept", largestBefore, ops.abs("factor", less));
  }
  Value held = ops.mul("held", largestBefore, ops.f64("little", 1.000001));
  return ops.truncate("largest", ops.add("all", held, move));
}
