// Gradients as torch leaves them ==> the part of a step's text that rounds them.
#include "codegen/driver/AdaptiveClip.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

// What is multiplied is written back by torch, and read again.
void SetWriter::store(StringRef word) {
  std::string name = ("%" + grad.name + "." + word).str(), type = typeOf("grad");
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

// The norm is of the gradients' format, of f32 where they have several. What torch
// rounds on the way to it, the norm of each tensor, is not rounded here.
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
  SmallVector<std::string> given;
  for (SetWriter &set : sets)
    given.push_back(set.gradient);
  std::string format = formatOf(sets), norm = "%clip.norm";
  bool rounds = format != "f32";
  text.line(norm + (rounds ? ".exact" : "") + " = norm l2 " +
            llvm::join(given, ", ") + " over step");
  if (rounds)
    text.line(norm + " = round %clip.norm.exact format<" + format + ">");
  text.always.push_back(norm + " to %norm : f32");
  text.line("%clip.factor = clip_coefficient " + norm +
            " to %max_norm as_torch format<" + format + ">");
  for (SetWriter &set : sets) {
    std::string scaled = "%" + set.grad.name + ".scaled";
    text.line(scaled + " = scale " + set.gradient + " by %clip.factor");
    set.gradient = scaled;
    set.store("clipped");
  }
}
