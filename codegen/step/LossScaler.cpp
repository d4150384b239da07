// Loss scales ==> the part of a step's text that reads, checks and changes them.
#include "codegen/step/LossScaler.h"

using namespace mlir;
using namespace altgrad;

namespace {
// An argument of role `scaler`; its name in the step is its key.
struct ScalerArgument {
  StringLiteral access, key, type;
};
} // namespace

static constexpr ScalerArgument scalerArguments[] = {
    {"in", "growth_tracker", "i64"},
    {"in", "hysteresis_tracker", "i64"},
    {"in", "growth_interval", "i64"},
    {"in", "hysteresis", "i64"},
    {"in", "growth_factor", "f64"},
    {"in", "backoff_factor", "f64"},
    {"in", "min_scale", "f64"},
    {"in", "max_scale", "f64"},
    {"out", "next_scale", "f32"},
    {"out", "next_growth_tracker", "i64"},
    {"out", "next_hysteresis_tracker", "i64"}};

void altgrad::nameScaler(StepText &text) {
  for (StringRef name : {"grad_scale", "found_inf", "found", "skipped"})
    text.name(name);
  for (const ScalerArgument &argument : scalerArguments)
    text.name(argument.key);
}

// 1 / %grad_scale, as torch rounds it.
static void invertScale(StepText &text) {
  text.line("%scale.scale64 = arith.extf %grad_scale : f32 to f64");
  text.line("%scale.one64 = arith.constant 1.0 : f64");
  text.line("%scale.inverse64 = arith.divf %scale.one64, %scale.scale64 : f64");
  text.line("%scale.inverse = arith.truncf %scale.inverse64 : f64 to f32");
}

// The condition that every gradient is finite, of all sets.
static std::string unscaleAll(StepText &text, MutableArrayRef<SetWriter> sets,
                              StringRef factor) {
  std::string condition;
  for (auto [index, set] : llvm::enumerate(sets)) {
    set.unscaleGradient(factor);
    std::string finite = "%" + set.grad.name + ".finite";
    if (index) {
      std::string all = "%skip.not" + std::to_string(index);
      text.line(all + " = arith.andi " + condition + ", " + finite + " : i1");
      finite = all;
    }
    condition = finite;
  }
  return condition;
}

static void sayWhatWasFound(StepText &text) {
  text.line("%skip.none = arith.constant 0.0 : f32");
  text.line("%skip.some = arith.constant 1.0 : f32");
  text.line("%skip.found = arith.select " + text.condition +
            ", %skip.none, %skip.some : f32");
  text.always.push_back("%skip.found to %found_inf : f32");
}

void altgrad::takeScaler(StepText &text, MutableArrayRef<SetWriter> sets) {
  text.argument("in scale %grad_scale: f32");
  text.argument("in flag %found_inf: f32");
  invertScale(text);
  text.line("%skip.none = arith.constant 0.0 : f32");
  text.line("%skip.not = arith.cmpf oeq, %found_inf, %skip.none : f32");
  for (SetWriter &set : sets)
    set.unscaleGradient("%scale.inverse");
  text.condition = "%skip.not";
}

void altgrad::takeInverseScale(StepText &text,
                               MutableArrayRef<SetWriter> sets) {
  text.argument("in inv_scale %inv_scale: f32");
  text.argument("out flag %found_inf: f32");
  text.condition = unscaleAll(text, sets, "%inv_scale");
  sayWhatWasFound(text);
}

// Of a scale of 0 the inverse is infinite, and would make NaN of the zeros that it
// left of the gradients; of an infinite one it is 0, and of NaN a NaN.
static void refuseScale(StepText &text) {
  text.line("%scale.least = arith.constant 0.0 : f32");
  text.line("%scale.infinity = arith.constant 0x7F800000 : f32");
  text.line("%scale.positive = arith.cmpf ogt, %scale.inverse, %scale.least : f32");
  text.line("%scale.finite = arith.cmpf olt, %scale.inverse, %scale.infinity : f32");
  text.line("%scale.usable = arith.andi %scale.positive, %scale.finite : i1");
  text.line("%scale.fine = arith.andi " + text.condition +
            ", %scale.usable : i1");
  text.condition = "%scale.fine";
}

// What becomes of the scale, by %scale.any.
static void updateScale(StepText &text, Scaler variant) {
  text.line(
      "%scale.next, %scale.counted, %scale.left = update_loss_scale<" +
      stringifyScaler(variant) +
      "> %grad_scale if %scale.any tracker(%growth_tracker every "
      "%growth_interval) hysteresis(%hysteresis_tracker of %hysteresis) "
      "growth(%growth_factor) backoff(%backoff_factor) limits(%min_scale, "
      "%max_scale)");
  for (StringRef write : {"%scale.next to %next_scale : f32",
                          "%scale.counted to %next_growth_tracker : i64",
                          "%scale.left to %next_hysteresis_tracker : i64"})
    text.always.push_back(write.str());
}

static void countSkip(StepText &text) {
  text.line("%scale.one = arith.constant 1 : i64");
  text.line("%scale.more = arith.addi %skipped, %scale.one : i64");
  text.line("%scale.skips = arith.select " + text.condition +
            ", %skipped, %scale.more : i64");
  text.always.push_back("%scale.skips to %skipped : i64");
}

static void takeNumbers(StepText &text) {
  for (const ScalerArgument &argument : scalerArguments)
    text.argument(argument.access + " scaler %" + argument.key + ": " +
                  argument.type);
}

void altgrad::takeLossScale(StepText &text, Scaler variant) {
  text.argument("in scale %grad_scale: f32");
  text.argument("in scaler %found: f32");
  takeNumbers(text);
  text.line("%skip.none = arith.constant 0.0 : f32");
  text.line("%scale.any = arith.cmpf une, %found, %skip.none : f32");
  updateScale(text, variant);
}

void altgrad::takeLossScaler(StepText &text, MutableArrayRef<SetWriter> sets,
                             Scaler variant) {
  text.argument("in scale %grad_scale: f32");
  text.argument("out flag %found_inf: f32");
  text.argument("inout scaler %found: f32");
  text.argument("inout scaler %skipped: i64");
  takeNumbers(text);
  invertScale(text);
  text.condition = unscaleAll(text, sets, "%scale.inverse");
  refuseScale(text);
  sayWhatWasFound(text);
  countSkip(text);
  text.line("%scale.sum = arith.addf %found, %skip.found : f32");
  text.always.push_back("%scale.sum to %found : f32");
  text.line("%scale.any = arith.cmpf une, %scale.sum, %skip.none : f32");
  updateScale(text, variant);
}
