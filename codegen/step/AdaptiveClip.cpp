// Bounds that follow from past norms or from parameters ==> the part of a
// step's text that clips to them.
#include "codegen/step/AdaptiveClip.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace altgrad;

void altgrad::takeGlobalNorm(StepText &text, MutableArrayRef<SetWriter> sets,
                             StringRef kind) {
  text.argument("out norm %norm: f32");
  SmallVector<std::string> given;
  for (SetWriter &set : sets)
    given.push_back(set.gradient);
  text.line("%clip.norm = norm " + kind + " " + llvm::join(given, ", ") +
            " over step");
  text.always.push_back("%clip.norm to %norm : f32");
}

// bitsandbytes' gnorm_scale: bound / norm where the norm is greater, else 1.
static std::string factorFor(StepText &text, StringRef suffix,
                             StringRef history) {
  auto name = [&](StringRef of) { return ("%clip." + of + suffix).str(); };
  std::string norm = name("norm"), bound = name("bound");
  text.line(bound + " = percentile %" + history + " with " + norm +
            " at %max_norm");
  text.line(name("above") + " = arith.cmpf ogt, " + norm + ", " + bound +
            " : f32");
  text.line(name("ratio") + " = arith.divf " + bound + ", " + norm + " : f32");
  text.line(name("whole") + " = arith.constant 1.0 : f32");
  text.line(name("factor") + " = arith.select " + name("above") + ", " +
            name("ratio") + ", " + name("whole") + " : f32");
  // A skipped step has no norm.
  text.writes.push_back(norm + " to %" + history.str() + " : f32");
  return name("factor");
}

void altgrad::clipAdaptively(StepText &text, MutableArrayRef<SetWriter> sets,
                             const StepRequest &request) {
  text.argument("in max_norm %max_norm: f32");
  if (request.clipsToParameters()) {
    for (SetWriter &set : sets)
      set.clippedOver = request.clip == Clip::AgcUnit ? "unit" : "tensor";
    return;
  }
  if (request.perTensor) {
    for (SetWriter &set : sets) {
      set.takeNorm("l2");
      set.scaleBy(factorFor(text, set.suffix(), set.takeHistory()));
    }
    return;
  }
  takeGlobalNorm(text, sets, "l2");
  text.argument("inout history %norm_history: f32");
  std::string factor = factorFor(text, "", "norm_history");
  for (SetWriter &set : sets)
    set.scaleBy(factor);
}

// The norms of each tensor's gradients in past steps.
std::string SetWriter::takeHistory() {
  Named history = named("norm_history");
  text.argument("inout history " + history.declared() + ": f32 per_tensor" +
                ofSet(/*list=*/false));
  return history.name;
}

// Adaptive gradient clipping (Brock et al. 2021, "High-Performance Large-Scale
// Image Recognition Without Normalization"), by units or with the whole tensor as
// one: to max_norm * max(|w|, 1e-3). A norm that is NaN makes all of its gradient NaN,
// as a global clip does.
void SetWriter::clipToParameter() {
  std::string prefix = "%" + grad.name;
  auto line = [&](StringRef name, const Twine &value) {
    text.line(prefix + "." + name + " = " + value);
    return prefix + "." + name.str();
  };
  std::string norm =
      line("length", "norm l2 " + gradient + " over " + clippedOver);
  std::string own =
      line("weight_length", "norm l2 " + before + " over " + clippedOver);
  std::string least = line("smallest", "arith.constant 1.0e-3 : f32");
  std::string size =
      line("unit", "arith.maximumf " + own + ", " + least + " : f32");
  std::string bound = line("bound", "arith.mulf %max_norm, " + size + " : f32");
  std::string above =
      line("above", "arith.cmpf ugt, " + norm + ", " + bound + " : f32");
  std::string tiny = line("tiny", "arith.constant 1.0e-6 : f32");
  std::string divisor =
      line("divisor", "arith.maximumf " + norm + ", " + tiny + " : f32");
  std::string ratio =
      line("ratio", "arith.divf " + bound + ", " + divisor + " : f32");
  std::string whole = line("one", "arith.constant 1.0 : f32");
  std::string factor = line("factor", "arith.select " + above + ", " + ratio +
                                          ", " + whole + " : f32");
  scaleBy(factor);
}
