// Gradients as torch leaves them ==> the part of a step's text that rounds
// them.
#include "codegen/step/AdaptiveClip.h"

using namespace mlir;
using namespace altgrad;

// What is multiplied is written back by torch, and read again.
void SetWriter::store(StringRef word) {
  std::string name = ("%" + grad.name + "." + word).str(),
              type = typeOf("grad");
  if (type == "!altgrad.tensors<f32>") {
    text.line(name + ".each = element " + gradient);
    text.line(name + " = collect " + name + ".each : f32 to !altgrad.reals");
  } else {
    text.line(name + ".code = quantize " + gradient +
              " round<nearest_even> overflow<nonfinite> : " + type);
    text.line(name + " = dequantize " + name + ".code : " + type);
  }
  gradient = name;
}

// The square of a set's norm, of norms of its tensors in their format.
static std::string squareOf(StepText &text, SetWriter &set) {
  std::string name = "%" + set.grad.name, own = name + ".length";
  text.line(own + ".exact = norm l2 " + set.gradient + " over tensor");
  text.line(own + " = round " + own + ".exact format<" + set.gradientFormat() +
            ">");
  text.line(own + ".square = arith.mulf " + own + ", " + own + " : f32");
  text.line(name + ".squares = across " + own + ".square");
  return name + ".squares";
}

// The norm of all, from squares of the sets' in their order. Where other
// devices' sums join, no tensor's norm is rounded.
static void takeNorm(StepText &text, MutableArrayRef<SetWriter> sets,
                     StringRef name, bool exchange) {
  std::string sum;
  for (SetWriter &set : sets) {
    std::string square = "%" + set.grad.name + ".squares";
    if (exchange || set.gradientFormat() == "f32") {
      text.line(square + ".each = element " + set.gradient);
      text.line(square + " = reduce sumsq " + square + ".each over step : f32");
    } else {
      square = squareOf(text, set);
    }
    if (!sum.empty()) {
      text.line(square + ".sum = arith.addf " + sum + ", " + square + " : f32");
      square += ".sum";
    }
    sum = square;
  }
  text.line(name.str() + " = math.sqrt " + sum + " : f32");
}

// The norm is of the gradients' format, of f32 where they have several.
static std::string formatOf(MutableArrayRef<SetWriter> sets) {
  std::string common = sets[0].gradientFormat();
  for (SetWriter &set : sets)
    if (set.gradientFormat() != common)
      return "f32";
  return common;
}

void altgrad::roundAsTorch(StepText &text, MutableArrayRef<SetWriter> sets,
                           const StepRequest &request) {
  if (request.unscale || request.scaler || request.lossScaler)
    for (SetWriter &set : sets) {
      set.store("unscaled");
      set.unclipped = set.gradient;
    }
  if (!request.clip)
    return;
  text.argument("in max_norm %max_norm: f32");
  text.argument("out norm %norm: f32");
  std::string format = formatOf(sets), norm = "%clip.norm";
  bool rounds = format != "f32";
  takeNorm(text, sets, rounds ? "%clip.norm.exact" : "%clip.norm",
           request.exchange);
  if (rounds)
    text.line(norm + " = round %clip.norm.exact format<" + format + ">");
  text.always.push_back(norm + " to %norm : f32");
  text.line("%clip.factor = clip_coefficient " + norm +
            " to %max_norm as_torch format<" + format + ">");
  for (SetWriter &set : sets) {
    set.scaleBy("%clip.factor", "scaled");
    set.store("clipped");
  }
}
