// One set of tensors of a generated step: its part of the text.
#ifndef ALTGRAD_CODEGEN_DRIVER_SETWRITER_H
#define ALTGRAD_CODEGEN_DRIVER_SETWRITER_H

#include "codegen/step/GenerateStep.h"
#include "codegen/storage/Storage.h"
#include "altgrad/format.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace altgrad {

// What all sets of a step write to.
struct StepText {
  std::string signature, body;
  llvm::SmallVector<std::string> writes, always; // of the commit
  std::string condition;                         // of `writes`; "": none
  llvm::StringSet<> names;
  // Values of the whole step are called `%clip.norm` and so on, those of an argument
  // `%m.new`: one that has such values has none of these names.
  static constexpr llvm::StringLiteral prefixes[] = {"clip", "scale", "skip", "change"};

  // A name that no other argument has: names of a rule may be any.
  std::string name(llvm::StringRef wanted, bool hasValues = true) {
    std::string name = wanted.str();
    while ((hasValues && llvm::is_contained(prefixes, name)) || !names.insert(name).second)
      name += "_";
    return name;
  }
  void argument(const llvm::Twine &text) {
    signature += (signature.empty() ? "" : ",\n    ") + text.str();
  }
  void line(const llvm::Twine &text) { body += "  " + text.str() + "\n"; }
};

/// Whether a master is the parameter and a remainder: "bf16+i16", "bf16+i8".
inline bool isSplitMaster(llvm::StringRef format) {
  return format == "bf16+i16" || format == "bf16+i8";
}

// An f32 constant as MLIR reads it, bit by bit.
std::string bitsOf(float number);

/// The seed of a step that draws, and how often it has drawn.
void takeSeed(StepText &text, bool always);

// An argument of the step: its name there, and what the rule calls it.
struct Named {
  std::string name, key;
  std::string declared() const {
    return "%" + name + (name == key ? "" : " as " + key);
  }
};

// One set: its part of the signature, its update and its writes.
class SetWriter {
public:
  // `rule` is null for a set without one.
  SetWriter(const SetRequest &request, RuleOp rule, mlir::Location loc,
            unsigned set, bool several, StepText &text)
      : request(request), rule(rule), loc(loc), place(loc), set(set),
        several(several), text(text) {}
  mlir::LogicalResult read();
  // `changes`: without a rule they are written, too.
  void takeGradient(bool changes);
  void dequantizeGradient();
  void unscaleGradient(llvm::StringRef factor);
  /// Its gradient times a factor, a list that `word` names.
  void scaleBy(llvm::StringRef factor, llvm::StringRef word = "clipped");
  /// A norm of each tensor's gradient, which the step says: `%clip.norm` and the
  /// set's suffix.
  void takeNorm(llvm::StringRef kind);
  /// Of past norms of each tensor; its name.
  std::string takeHistory();
  /// The gradient so far, as its format holds it; `word` names it.
  void store(llvm::StringRef word);
  void update();
  /// Norms and counts of each tensor, as arguments of role `statistic`; after
  /// the others.
  void measure();

  /// Without a rule: the further copy becomes what was quantized to `format`, over
  /// one scale or, as `scales` says, over those of tensors, blocks or elements.
  mlir::LogicalResult quantizeTo(llvm::StringRef format, llvm::StringRef scales);
  // Without a rule: to the further copy, or where it was, if `condition` holds.
  void writeGradient(llvm::StringRef condition);

  std::string gradientFormat() const {
    auto it = formats.find("grad");
    return it == formats.end() ? "f32" : it->second;
  }
  bool isRuled() const { return bool(rule); }
  /// Whether its copy is in blocks of columns, too, or in squares.
  bool hasColumns() { return wordOf("copy").both; }
  bool hasSquares() { return wordOf("copy").squares(); }
  /// Whether its copy is in a code book without blocks.
  bool copiesToBook() {
    return formats.count("copy") && codecOf("copy").book && blockOf("copy") <= 1;
  }
  /// Whether something is rounded as draws say.
  bool draws();
  std::string suffix() const { return set ? "_" + std::to_string(set) : ""; }
  std::string gradient;  // the value that the update takes
  std::string unclipped; // the one before it was clipped
  Named grad;
  // Over what its norm is bounded by the parameter's, when that is known; "": not.
  llvm::StringRef clippedOver;

private:
  mlir::FailureOr<std::string> takeGivenScales(llvm::StringRef scales);
  void clipToParameter();
  mlir::LogicalResult readWords();
  mlir::LogicalResult readWord(StorageWord &word);
  mlir::LogicalResult readGradientWord(const StorageWord &word);
  mlir::LogicalResult checkOptions();
  mlir::LogicalResult noStream(const StorageWord &word);
  // Where the next error is: a column of the set's "storage" or "rule", or the word
  // that names a stream.
  void lookAt(llvm::StringRef what, unsigned column);
  void lookAt(llvm::StringRef stream);
  mlir::LogicalResult take(llvm::StringRef text, const StorageWord &word);
  mlir::LogicalResult checkNames();
  mlir::LogicalResult checkRounding();
  llvm::StringRef formatOf(llvm::StringRef stream);
  Format codecOf(llvm::StringRef stream);
  std::string typeOf(llvm::StringRef stream);
  Named named(llvm::StringRef key, bool hasValues = true);
  Named only(llvm::StringRef role) {
    return named(rule.getName(rule.getByRole(role)[0]));
  }
  std::string ofSet(bool list) {
    return several && (!list || set) ? " set " + std::to_string(set) : "";
  }
  void stream(llvm::StringRef access, llvm::StringRef role, const Named &name,
              llvm::StringRef type);
  std::string load(const Named &name, llvm::StringRef type);
  // The code of a state with scales saturates: its block's largest is the format's.
  void stored(const Named &target, llvm::StringRef value,
              llvm::StringRef stream, bool scaled = false);
  StorageWord wordOf(llvm::StringRef stream);
  unsigned storeOf(llvm::StringRef stream);
  mlir::LogicalResult takeBlock(llvm::StringRef text, const StorageWord &word);
  mlir::LogicalResult checkBook(llvm::StringRef text, const StorageWord &word);
  // The elements that share a scale: 0 where a state has none.
  unsigned blockOf(llvm::StringRef state);
  // By which rule a scale is a power of two, if it is one.
  std::optional<ScaleRule> ruleOf(llvm::StringRef state);
  Companding compandingOf(llvm::StringRef state);
  mlir::LogicalResult checkCompanding(llvm::StringRef text, const StorageWord &word);
  mlir::LogicalResult checkKeepPositive(llvm::StringRef text, const StorageWord &word);
  // `number` of a state over `scale`, "" for 1; where its word says so, at least what
  // the smallest positive code is read as, if it is above 0.
  std::string keptPositive(const Named &state, const std::string &number, llvm::StringRef scale);
  std::string keptList(const Named &state);
  void expand(const Named &state);
  void compress(const Named &state, const std::string &number, llvm::StringRef scale);
  FormatAttr scaleFormat(llvm::StringRef state);
  std::string typeOfScales(llvm::StringRef state);
  Named takeScales(llvm::StringRef access, llvm::StringRef state);
  std::string powerOfTwo(const Named &scales, llvm::StringRef largest, llvm::StringRef state,
                         const std::string &type);
  mlir::LogicalResult checkColumns(llvm::StringRef text, const StorageWord &word);
  void storeColumns(llvm::StringRef value);
  mlir::LogicalResult takeSquares(llvm::StringRef text, const StorageWord &word);
  void storeSquares(const Named &copy, llvm::StringRef value);
  std::string powerBelow(const std::string &factor);
  std::string anyScale(const Named &state, const Named &scales, llvm::StringRef largest);
  std::string largestOf(const Named &state, bool finite);
  bool inHalves(llvm::StringRef state);
  void writeCopy(llvm::StringRef value);
  mlir::LogicalResult checkTensorScale(llvm::StringRef text, const StorageWord &word);
  mlir::LogicalResult checkBounded();
  // `top` over the largest number; 1 where that is 0 or not finite.
  std::string factorOf(const Named &copy, llvm::StringRef largest, float top);
  // The same of a tensor, or the power of two at or below it where the word says so.
  std::string tensorScale(const Named &copy, llvm::StringRef largest, float top);
  std::string largestOfHistory(const Named &copy, const Named &newest);
  std::string boundOfLargest(const Named &copy, const Named &newest);
  void storeTensorScaled(const Named &copy, llvm::StringRef value);
  void storeTwoLevels(const Named &copy, const Named &scales, llvm::StringRef value);
  // What is written from the `from`th write on is written whatever was found.
  void moveToAlways(size_t from);
  std::string loadBlocks(const Named &state, const Named &scales);
  void storeBlocks(const Named &state, const Named &scales, llvm::StringRef value);
  // Whether the parameter is the upper half of its master.
  bool splitsMaster() const;
  mlir::LogicalResult checkRemainder();
  std::string typeOfRemainder();
  std::string takeRemainder(const Named &param);
  void storeParts(const Named &param);
  std::string saturated(llvm::StringRef value, FormatAttr format);
  // Parameters on a format's grid, which rules move in rungs.
  bool inRungs() const { return formats.count("rungs"); }
  bool isCoded();
  bool drawsRungs();
  Format grid();
  mlir::LogicalResult checkRungs();
  std::string loadRung(const Named &param, llvm::StringRef old);
  std::string roundRungs(const Named &param, const std::string &change);
  std::string storeRung(const Named &param, const std::string &change);
  void countFlips();
  void measureRungs();
  std::string countStep();
  void measured(llvm::StringRef key, llvm::StringRef value, bool always);
  std::string element(llvm::StringRef list, llvm::StringRef name);
  std::string norm(llvm::StringRef element, llvm::StringRef name);
  std::string countOf(llvm::StringRef condition, llvm::StringRef name);
  std::string takeHypers();
  mlir::InFlightDiagnostic error() { return mlir::emitError(place); }

  const SetRequest &request;
  RuleOp rule;
  mlir::Location loc, place; // of the rule; of the next error
  unsigned set;
  bool several;
  StepText &text;
  llvm::StringMap<std::string> formats;
  llvm::StringMap<unsigned> blocks;
  llvm::StringMap<ScaleRule> rules; // of scales that are powers of two
  llvm::StringMap<std::string> scaleFormats; // where said
  llvm::StringMap<Companding> compandings;
  llvm::StringMap<unsigned> columns;  // of words, by the streams they name
  llvm::StringMap<StorageWord> words; // that say how to round
  std::string before, after;          // the parameter, or its master
  std::string code;                   // what is stored of it
  Named remainder;                    // where it has no room for its master
  llvm::SmallVector<mlir::BlockArgument> states;
  llvm::StringMap<std::string> hypers; // values of the step, by the rule's names
  std::string count;                   // the number of this step
  // Elements of a parameter in rungs: of its code, where it starts, how far it is to
  // go, unrounded, and where to; what tells old from new; and whether it moves.
  struct {
    std::string code, from, change, to, old, now, flips;
  } rung;
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_SETWRITER_H
