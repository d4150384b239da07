// The options of altgrad-opt as a compiler.
#ifndef ALTGRAD_CODEGEN_DRIVER_OPTIONS_H
#define ALTGRAD_CODEGEN_DRIVER_OPTIONS_H

#include "codegen/driver/Compiler.h"
#include "codegen/driver/Lists.h"
#include "codegen/driver/Output.h"
#include "dialect/Nearest.h"
#include "llvm/Support/CommandLine.h"

namespace altgrad {
namespace cl = llvm::cl;

enum class RuleList { Names, Verbose };

inline constexpr llvm::StringLiteral atRunTime =
    "; a number, such as max_norm, is given to the step when it runs";
inline bool isNumber(llvm::StringRef word) {
  return !word.empty() && llvm::isDigit(word[0]);
}

// One of several words; another one is refused with those that there are.
template <typename T> struct Choice : cl::parser<T> {
  using cl::parser<T>::parser;
  bool parse(cl::Option &option, llvm::StringRef name, llvm::StringRef word, T &value) {
    llvm::SmallVector<llvm::StringRef> known;
    for (const auto &row : this->Values) {
      if (row.Name == word) {
        value = row.V.getValue();
        return false;
      }
      if (!row.Name.empty())
        known.push_back(row.Name);
    }
    return complain("--" + option.ArgStr + "=" + word + sayKnown(word, known) +
                    (isNumber(word) && option.ArgStr == "clip" ? atRunTime : ""));
  }
};

// On or off.
struct Flag : cl::parser<bool> {
  using cl::parser<bool>::parser;
  bool parse(cl::Option &option, llvm::StringRef name, llvm::StringRef word, bool &value) {
    value = word.empty() || word == "true";
    if (value || word == "false")
      return false;
    return complain("--" + option.ArgStr + "=" + word + "; there are true, which is --" +
                    option.ArgStr + " alone, and false" + (isNumber(word) ? atRunTime : ""));
  }
};

// The options, alive while a product is made; mlir-opt's own never meet them.
struct Options {
  cl::OptionCategory category{"altgrad-opt options"};
  cl::opt<std::string> input{cl::Positional, cl::desc("<spec.mlir, - for stdin>"),
                             cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("Where to write (- for stdout)"),
                              cl::value_desc("file"), cl::init("-"),
                              cl::cat(category)};
  cl::opt<Product, false, Choice<Product>> emit{
      "emit", cl::desc("What to make"), cl::init(Product::MLIR),
      cl::values(clEnumValN(Product::MLIR, "mlir", "the step in phases"),
                 clEnumValN(Product::LLVM, "llvm", "LLVM IR for one CPU"),
                 clEnumValN(Product::Assembly, "asm", "x86-64 assembly"),
                 clEnumValN(Product::PTX, "ptx", "PTX for one target"),
                 clEnumValN(Product::Report, "report", "sweeps, bytes, launches"),
                 clEnumValN(Product::Manifest, "manifest", "the bundle's manifest"),
                 clEnumValN(Product::Bundle, "bundle", "a shared object")),
      cl::cat(category)};
  cl::list<std::string> targets{"target", cl::CommaSeparated,
                                cl::desc("Machines, see --list-targets"),
                                cl::cat(category)};
  cl::opt<std::string> rule{
      "rule", cl::desc("Generate a step that applies this rule, with its "
                       "options in braces: adam{amsgrad}, ./mine.mlir{flip}"),
      cl::cat(category)};
  cl::opt<std::string> storage{
      "storage",
      cl::desc(
          "Formats of the generated step's streams: \"param=bf16 "
          "master=f32 m=bf16 states=param copy=ocp.e4m3fn step=f32\"; "
          "f32 where unnamed, the step count i64. Behind a comma: "
          "nearest_even, toward_zero, stochastic or stochastic32, saturate or nonfinite, and "
          "of states that are divided by keep_positive"),
      cl::cat(category)};
  cl::list<std::string> sets{
      "set",
      cl::desc("A set of tensors of the generated step, its rule and its "
               "storage: \"rule=adamw{amsgrad} param=bf16 states=param\"; "
               "may be given for every kind of tensors. Without a rule "
               "gradients are the result, in place or elsewhere: "
               "\"grad=bf16\", \"grad=bf16 copy=f32\""),
      cl::cat(category)};
  cl::opt<bool, false, Flag> exchange{
      "exchange", cl::desc("Let step-wide sums be combined with other devices' "
                           "between two phases"),
      cl::cat(category)};
  cl::opt<Clip, false, Choice<Clip>> clip{
      "clip",
      cl::desc("Clip by the global norm, to max_norm; or adapt to the past or "
               "to the parameters"),
      cl::values(clEnumValN(Clip::Norm, "", "the global norm, to max_norm"),
                 clEnumValN(Clip::Percentile, "percentile",
                            "to what max_norm percent of the last 100 norms "
                            "were below"),
                 clEnumValN(Clip::Agc, "agc",
                            "each tensor's norm, to max_norm times that of its "
                            "parameter"),
                 clEnumValN(Clip::AgcUnit, "agc-unit",
                            "that of each row of a tensor's matrices, to "
                            "max_norm times that of its parameter's row")),
      cl::ValueOptional,
      cl::init(Clip::Norm),
      cl::cat(category)};
  cl::opt<std::string> profile{
      "profile",
      cl::desc("'torch': round gradients after unscaling and after the clip, "
               "the norm and the coefficient, as torch does; default: one "
               "product in f32"),
      cl::init("default"), cl::cat(category)};
  cl::opt<bool, false, Flag> clipValue{
      "clip-value", cl::desc("Clip each element of a gradient, to clip_value"),
      cl::cat(category)};
  cl::opt<NormKind, false, Choice<NormKind>> norm{
      "norm", cl::desc("Give the norm of all gradients; what --clip clips by"),
      cl::values(clEnumValN(NormKind::L1, "l1", "the sum of magnitudes"),
                 clEnumValN(NormKind::L2, "l2", "the Euclidean norm"),
                 clEnumValN(NormKind::LInf, "linf", "the largest magnitude")),
      cl::init(NormKind::L2), cl::cat(category)};
  cl::opt<bool, false, Flag> perTensor{
      "per-tensor", cl::desc("With --clip or --norm: a norm for each tensor"),
      cl::cat(category)};
  cl::opt<bool, false, Flag> unscale{
      "unscale", cl::desc("Multiply gradients by inv_scale, skip if one is not "
                          "finite, say so in found_inf"),
      cl::cat(category)};
  cl::opt<std::string> quantize{
      "quantize",
      cl::desc("Without a rule: divide by grad_scale and round to this format; "
               "the copy holds codes if it has the format, else their products "
               "with grad_scale"),
      cl::value_desc("format"), cl::cat(category)};
  cl::opt<std::string> scales{
      "scales",
      cl::desc("With --quantize: a grad_scale for each 'tensor', each 'element' or "
               "each block of so many elements; default: one for the step"),
      cl::value_desc("extent"), cl::cat(category)};
  cl::opt<bool, false, Flag> scaler{"scaler",
                       cl::desc("Take torch's grad_scale and found_inf"),
                       cl::cat(category)};
  cl::opt<Scaler, false, Choice<Scaler>> lossScaler{
      "loss-scaler",
      cl::desc("Unscale, skip if a gradient is not finite, and compute the next "
               "loss scale; without --rule or --set only this"),
      cl::values(clEnumValN(Scaler::Torch, "torch", "grows at the interval, never "
                                                    "to an infinity"),
                 clEnumValN(Scaler::Boostr, "boostr", "grows at the interval or "
                                                      "beyond it")),
      cl::cat(category)};
  cl::opt<bool, false, Flag> statistics{
      "statistics", cl::desc("Say norms and counts of each tensor, in the same "
                             "passes over memory"),
      cl::cat(category)};
  cl::opt<std::string> rulePath{"rule-path",
                                cl::desc("Folders of rules that are not stock, by colons"),
                                cl::cat(category)};
  cl::opt<std::string> ptxas{
      "ptxas", cl::desc("With --emit=bundle: add a cubin for each GPU target, made "
                        "by this program"),
      cl::value_desc("path"), cl::cat(category)};
  cl::list<std::string> analyze{
      "analyze",
      cl::desc("Say what is lost between the rule's numbers and the formats, "
               "with defaults or these values: lr=1e-4,eps=1e-8,loss_scale=1024"),
      cl::value_desc("hyper=value"), cl::CommaSeparated, cl::ValueOptional,
      cl::cat(category)};
  cl::opt<bool, false, Flag> printStep{"print-step", cl::desc("With --rule: print the step as "
                                            "generated and stop"),
                     cl::cat(category)};
  cl::opt<bool, false, Flag> canonicalize{"canonicalize", cl::init(true),
                             cl::desc("Simplify between passes"),
                             cl::cat(category)};
  cl::opt<bool, false, Flag> listFormats{"list-formats", cl::desc("List the named formats"),
                            cl::cat(category)};
  cl::opt<bool, false, Flag> listOps{"list-ops",
                        cl::desc("List the operations that a rule may have"),
                        cl::cat(category)};
  cl::opt<RuleList, false, Choice<RuleList>> listRules{
      "list-rules", cl::desc("List the rules found"),
      cl::values(clEnumValN(RuleList::Names, "", "their names"),
                 clEnumValN(RuleList::Verbose, "verbose",
                            "with states, hyper-parameters, options and words of a "
                            "storage line")),
      cl::ValueOptional, cl::init(RuleList::Names), cl::cat(category)};
  cl::opt<bool, false, Flag> listTargets{"list-targets", cl::desc("List the machines"),
                            cl::cat(category)};
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_OPTIONS_H
