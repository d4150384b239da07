// The options of altgrad-opt as a compiler.
#ifndef ALTGRAD_CODEGEN_DRIVER_OPTIONS_H
#define ALTGRAD_CODEGEN_DRIVER_OPTIONS_H

#include "codegen/driver/Compiler.h"
#include "codegen/driver/Driver.h"
#include "dialect/SpellCheck.h"
#include "llvm/Support/CommandLine.h"

namespace altgrad {
namespace cl = llvm::cl;

enum class RuleList { Names, Verbose };

inline constexpr llvm::StringLiteral atRunTime = "; a number, such as max_norm, is given to the step when it runs";
inline bool isNumber(llvm::StringRef word) { return !word.empty() && llvm::isDigit(word[0]); }

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
    return complain("--" + option.ArgStr + "=" + word + describeChoices(word, known) +
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
    return complain("--" + option.ArgStr + "=" + word + "; there are true, which is --" + option.ArgStr +
                    " alone, and false" + (isNumber(word) ? atRunTime : ""));
  }
};

// The options, alive while a product is made; mlir-opt's own never meet them. Most say a part of the request.
struct Options {
  explicit Options(CompileRequest &request) : request(request), step(request.step) {
    for (auto &[name, option] : cl::getRegisteredOptions())
      if (option->Categories[0] == &cl::getGeneralCategory())
        option->addCategory(category);
  }
  CompileRequest &request;
  StepRequest &step;
  cl::OptionCategory category{"altgrad-opt options"};
  cl::opt<std::string, true> input{cl::Positional, cl::location(request.input), cl::desc("<spec.mlir, - for stdin>")};
  cl::opt<std::string> output{"o", cl::desc("The file to write; - writes to stdout"), cl::value_desc("file"),
                              cl::init("-")};
  cl::opt<Product, true, Choice<Product>> emit{
      "emit", cl::location(request.product), cl::desc("What to print or write"), cl::init(Product::MLIR),
      cl::values(
          clEnumValN(Product::MLIR, "mlir", "the step after the passes, as MLIR"),
          clEnumValN(Product::LLVM, "llvm", "LLVM IR for one processor"),
          clEnumValN(Product::Assembly, "asm", "assembly for one processor"),
          clEnumValN(Product::PTX, "ptx", "PTX for one GPU"),
          clEnumValN(Product::Resources, "resources", "registers, shared memory and stack of kernels for one GPU"),
          clEnumValN(Product::Report, "report", "passes over memory, bytes per element, kernel launches"),
          clEnumValN(Product::Manifest, "manifest", "what a bundle says of its tensors and functions, as JSON"),
          clEnumValN(Product::Bundle, "bundle", "a shared library with code for all targets"))};
  cl::list<std::string> targets{"target", cl::CommaSeparated,
                                cl::desc("The processors and GPUs to compile for, separated by commas; "
                                         "--list-targets lists them")};
  cl::opt<std::string> rule{"rule", cl::desc("Generates a step from a rule: the name of a stock rule, or a file "
                                             "such as ./mine.mlir. Options of the rule that are on follow in "
                                             "braces: adam{amsgrad}")};
  cl::opt<std::string> storage{"storage", cl::desc("With --rule: the format of each stream, as in \"param=bf16 "
                                                   "master=f32 m=bf16 states=param copy=ocp.e4m3fn step=f32\". A "
                                                   "stream that is not named is f32, and the step count i64. Behind a "
                                                   "comma stands how a number is rounded: nearest_even, toward_zero, "
                                                   "stochastic or stochastic32; what happens beyond the range: "
                                                   "saturate or nonfinite; and keep_positive, which stores no "
                                                   "positive number as 0. templates/Storage.md describes all words")};
  cl::list<std::string> sets{"set", cl::desc("Generates a step like --rule, for one kind of tensors: the rule "
                                             "and its storage in one text, as in \"rule=adamw{amsgrad} "
                                             "param=bf16 states=param\". Give it once for each kind. Without "
                                             "rule= the step changes gradients alone, in place (\"grad=bf16\") "
                                             "or into a copy (\"grad=bf16 copy=f32\")")};
  cl::opt<bool, true, Flag> exchange{"exchange", cl::location(step.exchange),
                                     cl::desc("Lets a caller combine sums over all tensors with those of other "
                                              "devices, between two phases")};
  cl::opt<bool, true, Flag> expectRemoteProducts{
      "expect-remote-products", cl::location(step.expectRemoteProducts),
      cl::desc("With --exchange: a step without matrices also has an exchange at "
               "which other devices say whether their products are finite; if "
               "not, it is skipped")};
  cl::opt<Clip, false, Choice<Clip>> clip{
      "clip",
      cl::desc("Clips gradients by their norm. max_norm is given when the "
               "step runs"),
      cl::values(
          clEnumValN(Clip::Norm, "", "the norm of all gradients is at most max_norm"),
          clEnumValN(Clip::Percentile, "percentile", "the bound is the max_norm-th percentile of the last 100 norms"),
          clEnumValN(Clip::Agc, "agc", "each gradient's norm is at most max_norm times its parameter's"),
          clEnumValN(Clip::AgcUnit, "agc-unit", "as agc, for each row of a matrix by itself")),
      cl::ValueOptional, cl::init(Clip::Norm)};
  cl::opt<std::string> profile{"profile",
                               cl::desc("'torch' rounds as torch does: gradients after unscaling and "
                                        "after the clip, the norm, and the clip's coefficient. "
                                        "'default' multiplies each gradient once, in f32"),
                               cl::init("default")};
  cl::opt<bool, true, Flag> clipValue{"clip-value", cl::location(step.clipValue),
                                      cl::desc("Limits each element of a gradient to +-clip_value, which is "
                                               "given when the step runs")};
  cl::opt<NormKind, false, Choice<NormKind>> norm{
      "norm",
      cl::desc("Returns the norm of all gradients. With --clip, it is the "
               "norm that is bounded"),
      cl::values(clEnumValN(NormKind::L1, "l1", "the sum of magnitudes"),
                 clEnumValN(NormKind::L2, "l2", "the Euclidean norm"),
                 clEnumValN(NormKind::LInf, "linf", "the largest magnitude")),
      cl::init(NormKind::L2)};
  cl::opt<bool, true, Flag> perTensor{"per-tensor", cl::location(step.perTensor),
                                      cl::desc("With --clip or --norm: computes a norm for each tensor, not "
                                               "one for all")};
  cl::opt<bool, true, Flag> unscale{"unscale", cl::location(step.unscale),
                                    cl::desc("Multiplies gradients by inv_scale. If a gradient is not finite, "
                                             "the step is skipped and found_inf is set to 1")};
  cl::opt<std::string, true> quantize{"quantize", cl::location(step.quantize),
                                      cl::desc("For a set without a rule: divides by grad_scale and rounds to "
                                               "this format. A copy in this format gets the codes; any other copy "
                                               "gets the rounded numbers times grad_scale"),
                                      cl::value_desc("format")};
  cl::opt<std::string, true> scales{"scales", cl::location(step.scales),
                                    cl::desc("With --quantize: how many elements share a grad_scale: 'tensor', "
                                             "'element', or a number of elements. Without it there is one for "
                                             "the step"),
                                    cl::value_desc("extent")};
  cl::opt<bool, true, Flag> scaler{"scaler", cl::location(step.scaler),
                                   cl::desc("Takes grad_scale and found_inf of torch.amp.GradScaler as "
                                            "arguments of the step")};
  cl::opt<Scaler, false, Choice<Scaler>> lossScaler{
      "loss-scaler",
      cl::desc("Unscales gradients, skips the step if one is not finite, and "
               "computes the next loss scale. Without --rule and --set the step "
               "does nothing else"),
      cl::values(clEnumValN(Scaler::Torch, "torch",
                            "as torch.amp.GradScaler: the scale grows after "
                            "growth_interval steps, and stays finite"),
                 clEnumValN(Scaler::Boostr, "boostr",
                            "as boostr: the scale grows after at least "
                            "growth_interval steps"))};
  cl::opt<bool, true, Flag> statistics{"statistics", cl::location(step.statistics),
                                       cl::desc("Also computes norms and counts of each tensor, in the same "
                                                "passes over memory")};
  cl::opt<std::string, true> rulePath{"rule-path", cl::location(request.rulePath),
                                      cl::desc("Further folders of rules, separated by colons")};
  cl::opt<std::string, true> ptxas{"ptxas", cl::location(request.ptxas),
                                   cl::desc("With --emit=bundle: the ptxas program that assembles PTX, so "
                                            "that the bundle also has machine code for each GPU"),
                                   cl::value_desc("path")};
  cl::list<std::string> analyze{"analyze",
                                cl::desc("Prints what the formats lose of the numbers of the rule, and "
                                         "what to write instead. It computes with the defaults of "
                                         "hyper-parameters, or with these values: "
                                         "lr=1e-4,eps=1e-8,loss_scale=1024"),
                                cl::value_desc("hyper=value"), cl::CommaSeparated, cl::ValueOptional};
  cl::opt<bool, true, Flag> printStep{"print-step", cl::location(request.printStep),
                                      cl::desc("With --rule or --set: prints the generated step and stops")};
  cl::opt<bool, true, Flag> ownProducts{"own-products", cl::location(request.ownProducts),
                                        cl::desc("For GPUs: also writes kernels for symmetric products of bf16 and f16 "
                                                 "matrices, on tensor cores. A step calls them where "
                                                 "they are faster than what multiplies otherwise")};
  cl::opt<bool, true, Flag> canonicalize{"canonicalize", cl::location(request.canonicalize), cl::init(true),
                                         cl::desc("Simplifies the IR between passes; --canonicalize=false does not")};
  cl::opt<bool, false, Flag> listCoefficients{
      "list-coefficients", cl::desc("Lists the named sets of coefficients of altgrad.orthogonalize")};
  cl::opt<bool, false, Flag> listFormats{"list-formats", cl::desc("Lists the named formats")};
  cl::opt<bool, false, Flag> listOps{"list-ops", cl::desc("Lists the operations that a rule may have")};
  cl::opt<RuleList, false, Choice<RuleList>> listRules{
      "list-rules", cl::desc("Lists the rules that --rule finds"),
      cl::values(clEnumValN(RuleList::Names, "", "names alone"),
                 clEnumValN(RuleList::Verbose, "verbose", "and their states, hyper-parameters, options and streams")),
      cl::ValueOptional, cl::init(RuleList::Names)};
  cl::opt<bool, false, Flag> listTargets{"list-targets", cl::desc("Lists the processors and GPUs that --target takes")};
};

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_OPTIONS_H
