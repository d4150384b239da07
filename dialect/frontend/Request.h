// What a step is asked to be: sets of tensors, each with its rule and its line of storage.
#ifndef ALTGRAD_DIALECT_FRONTEND_REQUEST_H
#define ALTGRAD_DIALECT_FRONTEND_REQUEST_H

#include "dialect/Dialect.h"
#include <optional>
#include <string>
#include <vector>

namespace altgrad {

/// "m=ocp.e4m3fn:128:f16,stochastic": 128 elements share a scale in f16; how they do so, codes are found, and what lies
/// between two or beyond the last is stored, is for codecs and what stands behind commas.
struct StorageWord {
  std::string text;    // all of it
  unsigned column = 1; // in the line, from 1
  std::string stream, format;
  std::optional<std::string> block;     // as it was written
  unsigned elements = 0;                // that share a scale; 0: none do, or squares
  unsigned side = 0;                    // rows and columns of squares that share one; 0: none do
  std::string scale = "f32";            // the format of what they share
  std::vector<std::string> modifiers;   // behind commas: BlockCodec.h has all there is
  std::optional<Round> round;           // nearest_even where nothing is said
  std::optional<OverflowMode> overflow; // what suits the format
  bool hasModifier(llvm::StringRef modifier) const { return llvm::is_contained(modifiers, modifier); }
  bool hasSquareBlock() const { return side != 0; }
  bool definesRounding() const { return round || overflow || hasModifier("reference"); }
  bool stochastic() const { return round == Round::Stochastic; }
  unsigned drawBits() const { return hasModifier("stochastic32") ? 32 : 16; }
};

/// Reads the words of a line. Whether streams and formats are known is for SetStorage to say.
mlir::LogicalResult readStorageLine(llvm::StringRef line, llvm::SmallVectorImpl<StorageWord> &words,
                                    llvm::function_ref<mlir::InFlightDiagnostic(unsigned column)> errorAt);

/// What a word may name beside a rule's states and its step count.
llvm::ArrayRef<llvm::StringRef> commonStorageWords();

/// What words may name for a rule that stores `states`: its streams, `states` for all of
/// them, and `step` where it counts steps.
llvm::SmallVector<llvm::StringRef> getStorageWords(RuleOp rule, llvm::ArrayRef<llvm::StringRef> states);

/// Why `word` has no format that is known: "unknown format 'e4m3'; did you mean ...".
std::string unknownFormat(llvm::StringRef word);

/// One set of tensors: the rule that updates them and how they are stored.
/// Without a rule its gradients are the result, in place or in a further copy.
struct SetRequest {
  bool ruled = true;
  std::string spelled; // "adam{amsgrad}"
  std::string rule;
  std::vector<std::string> options; // that are on
  std::string storage;              // "param=bf16 master=f32 states=param"
};

/// What bounds gradients: the norm of all by a number, or by a percentile of what it was in past steps; or each
/// tensor's, or each unit's, by that of its parameter.
enum class Clip { Norm, Percentile, Agc, AgcUnit };

struct StepRequest {
  std::vector<SetRequest> sets;
  std::optional<Clip> clip;
  bool clipValue = false;            // each element, to +-clip_value
  std::optional<NormKind> norm;      // that is asked for; that of a clip is l2
  bool perTensor = false;            // a norm for each tensor
  bool unscale = false;              // by inv_scale, with a check of its own
  bool scaler = false;               // torch's grad_scale and found_inf
  std::optional<Scaler> lossScaler;  // the scale and what becomes of it
  bool statistics = false;           // of each tensor, and of the clip
  std::string quantize;              // to this format, without a rule; "": not
  std::string scales;                // that it divides by: "", tensor, element, elements a block
  bool asTorch = false;              // unscaled and clipped gradients rounded as torch's
  bool exchange = false;             // other devices' sums join those over the step
  bool guards = false;               // a step is skipped where products of matrices are wrong: a GPU says so to nobody
  bool expectRemoteProducts = false; // with `exchange`: it is skipped where products of other devices are wrong, too
  /// Whether gradients are other ones afterwards.
  bool changes() const { return clip.has_value() || clipValue || unscale; }
  /// Whether each norm has a bound of its own.
  bool clipsToParameters() const { return clip == Clip::Agc || clip == Clip::AgcUnit; }
  /// Whether the bound of a clip is computed from history or parameters.
  bool adapts() const { return clip.has_value() && *clip != Clip::Norm; }
};

/// What diagnostics call the `rule` or the `storage` of a set: a text of one line, to which their columns point.
std::string describeSource(llvm::StringRef what, unsigned set, bool several);

/// Reads "adam{amsgrad}" or "./mine.mlir{flip}". Returns why it is no rule, or "".
std::string readRule(llvm::StringRef spelled, SetRequest &set);
/// Reads "rule=adamw{amsgrad} param=bf16", or "grad=bf16 copy=f32" without a rule. Returns why it is no set, or "".
std::string readSet(llvm::StringRef text, SetRequest &set);

/// The step that updates each set by its rule; `rules` are those of the sets, null where one has none. One clip, one
/// scaler and one commit are over all sets. The dialects altgrad, arith and math are loaded. Fails after an error at a
/// word of a storage line or of a rule; the step is not verified yet.
mlir::FailureOr<mlir::OwningOpRef<StepOp>> buildStep(const StepRequest &request, llvm::ArrayRef<RuleOp> rules,
                                                     mlir::MLIRContext &context);

/// The step as a person would write it.
std::string printStep(StepOp step);

} // namespace altgrad

#endif // ALTGRAD_DIALECT_FRONTEND_REQUEST_H
