// Steps generated from rules and lines of storage.
#ifndef ALTGRAD_CODEGEN_DRIVER_GENERATESTEP_H
#define ALTGRAD_CODEGEN_DRIVER_GENERATESTEP_H

#include "dialect/Dialect.h"
#include <optional>
#include <string>
#include <vector>

namespace altgrad {

/// One set of tensors: the rule that updates them and how they are stored.
/// Without a rule its gradients are the result, in place or in a further copy.
struct SetRequest {
  bool ruled = true;
  std::string spelled; // "adam{amsgrad}"
  std::string rule;
  std::vector<std::string> options; // that are on
  std::string storage;              // "param=bf16 master=f32 states=param"
};

/// What bounds gradients: the norm of all by a number, or by a percentile of
/// what it was in past steps; or each tensor's, or each unit's, by that of its
/// parameter.
enum class Clip { Norm, Percentile, Agc, AgcUnit };

struct StepRequest {
  std::vector<SetRequest> sets;
  std::optional<Clip> clip;
  bool clipValue = false;       // each element, to +-clip_value
  std::optional<NormKind> norm; // that is asked for; that of a clip is l2
  bool perTensor = false;       // a norm for each tensor
  bool unscale = false;         // by inv_scale, with a check of its own
  bool scaler = false;  // torch's grad_scale and found_inf
  std::optional<Scaler> lossScaler; // the scale and what becomes of it
  bool statistics = false; // of each tensor, and of the clip
  std::string quantize;    // to this format, without a rule; "": not
  std::string scales; // that it divides by: "", tensor, element, elements a block
  bool asTorch = false;    // unscaled and clipped gradients rounded as torch's
  bool exchange = false;   // other devices' sums join those over the step
  /// Whether gradients are other ones afterwards.
  bool changes() const { return clip.has_value() || clipValue || unscale; }
  /// Whether each norm has a bound of its own.
  bool clipsToParameters() const {
    return clip == Clip::Agc || clip == Clip::AgcUnit;
  }
  /// Whether the norms of a clip are of the past, or of parameters.
  bool adapts() const { return clip.has_value() && *clip != Clip::Norm; }
};

/// What diagnostics call the `rule` or the `storage` of a set: a text of one line, to
/// which their columns point.
std::string placeOf(llvm::StringRef what, unsigned set, bool several);

/// Reads "adam{amsgrad}" or "./mine.mlir{flip}". Returns why it is no rule, or "".
std::string readRule(llvm::StringRef spelled, SetRequest &set);
/// Reads "rule=adam{amsgrad} param=bf16", or "grad=bf16 copy=f32" without a
/// rule. Returns why it is no set, or "".
std::string readSet(llvm::StringRef text, SetRequest &set);

/// The text of a step that updates each set by its rule, as a person would
/// write it; `rules` are those of the sets, null where one has none. One clip,
/// one scaler and one commit are over all sets.
mlir::FailureOr<std::string> generateStep(const StepRequest &request,
                                          llvm::ArrayRef<RuleOp> rules,
                                          mlir::MLIRContext &context);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_GENERATESTEP_H
