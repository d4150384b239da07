// The command line of altgrad-opt as a compiler.
#include "codegen/driver/Driver.h"

#include "altgrad/bundle.h"
#include "altgrad/format.h"
#include "codegen/Passes.h"
#include "codegen/driver/Compiler.h"
#include "dialect/Arithmetic.h"
#include "dialect/Coefficients.h"
#include "dialect/SpellCheck.h"
#include "dialect/frontend/RulePath.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/CrashRecoveryContext.h"

using namespace mlir;
using namespace altgrad;
namespace cl = llvm::cl;

//===-- What tools register: dialects, how the last of them become LLVM IR, and passes by name ----===//

void altgrad::registerDialects(DialectRegistry &registry) {
  registry.insert<AltgradDialect, arith::ArithDialect, cf::ControlFlowDialect, math::MathDialect, scf::SCFDialect,
                  vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

void altgrad::registerPasses() {
  registerAltgradPasses();
  registerAltgradCodegenPasses();
  registerPipelines();
  registerCanonicalizerPass();
  registerCSEPass();
}

//===-- Its options -----------------------------------------------------------===//

static constexpr StringLiteral atRunTime = "; a number, such as max_norm, is given to the step when it runs";
static bool isNumber(StringRef word) { return !word.empty() && llvm::isDigit(word[0]); }

namespace {
enum class RuleList { Names, Verbose };

// One of several words; another one is refused with those that there are.
template <typename T> struct Choice : cl::parser<T> {
  using cl::parser<T>::parser;
  bool parse(cl::Option &option, StringRef name, StringRef word, T &value) {
    SmallVector<StringRef> known;
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
  bool parse(cl::Option &option, StringRef name, StringRef word, bool &value) {
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
  cl::opt<std::string, true> entry{
      "entry", cl::location(request.entry),
      cl::desc("With --rule or --set: an entry of the rule in its place, which is a further "
               "step over the same parameters and states"),
      cl::value_desc("name")};
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
  cl::opt<bool, true, Flag> printRule{"print-rule", cl::location(request.printRule),
                                      cl::desc("Prints the rules of the text, or the one of --rule, as operations "
                                               "with types, and stops")};
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
} // namespace

//===-- The command line ------------------------------------------------------===//

static constexpr StringLiteral overview =
    "altgrad-opt: the optimizer compiler\n\nWithout --emit or --rule it is mlir-opt for "
    "the altgrad dialect: try --show-dialects, --pass-pipeline=...\nWith --emit or --rule "
    "mlir-opt's options about passes are taken as well: --mlir-print-ir-after-all,\n"
    "--mlir-print-ir-after=altgrad-split-sweeps, --mlir-timing.\n";

bool altgrad::isCompilerCommand(int argc, char **argv) {
  static constexpr StringLiteral known =
      "emit rule entry set storage clip clip-value norm per-tensor unscale scaler loss-scaler quantize scales "
      "statistics profile analyze print-step print-rule list-coefficients list-rules list-ops list-targets "
      "list-formats version help target ptxas exchange expect-remote-products others-multiply";
  for (int i = 1; i < argc; ++i) {
    StringRef word(argv[i]);
    if (!word.consume_front("--") && !word.consume_front("-"))
      continue;
    for (StringRef own : llvm::split(known, " "))
      if (StringRef name = word.split('=').first;
          name == own || (name.size() > 4 && name.edit_distance(own, true, 1) == 1))
        return true;
  }
  return false;
}

static int list(const Options &options) {
  std::string text;
  if (options.listTargets)
    text += listTargets();
  if (options.listFormats)
    text += listFormats();
  if (options.listCoefficients)
    text += listCoefficients();
  if (options.listOps)
    text += listOperations();
  bool verbose = options.listRules == RuleList::Verbose;
  int bad = verbose && failed(describeRules(options.request.rulePath, text));
  if (options.listRules.getNumOccurrences() && !verbose)
    for (const std::string &name : listRules(options.request.rulePath))
      text += name + "\n";
  return writeProduct(text, options.output) || bad;
}

// Lines end options on their way through the C ABI, and LLVM would take the words of
// a command line from a file.
static bool rejectArguments(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    StringRef word(argv[i]);
    if (word.starts_with("@"))
      return complain("'" + word + "' would read arguments from a file; write ./" + word);
    auto *control = llvm::find_if(word, [](char c) { return iscntrl(static_cast<unsigned char>(c)); });
    if (control != word.end())
      return complain("argument " + Twine(i) + " has a control character, byte " + Twine(int(*control)) + ", at " +
                      Twine(control - word.begin()));
  }
  return false;
}

// An option under the name that it had one release ago.
static void acceptRenamed(int argc, char **argv) {
  static char present[] = "--expect-remote-products";
  for (char *&word : llvm::MutableArrayRef(argv, argc))
    if (StringRef(word) == "--others-multiply" || StringRef(word) == "-others-multiply") {
      llvm::errs() << "altgrad-opt: note: --others-multiply is --expect-remote-products now; the next release does not "
                      "know the old name\n";
      word = present;
    }
}

// LLVM registers hundreds of options; some of them write files.
static void unregisterForeignOptions() {
  SmallVector<cl::Option *> foreign;
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (option->Categories[0]->getName() != "Generic Options")
      foreign.push_back(option);
  for (cl::Option *option : foreign)
    option->removeArgument();
}

// The last one would win, and a request is often put together from parts.
static bool hasRepeatedOption(const cl::OptionCategory &own) {
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (llvm::is_contained(option->Categories, &own) && option->getNumOccurrencesFlag() == cl::Optional &&
        option->getNumOccurrences() > 1)
      return complain("--" + option->ArgStr + " is given " + Twine(option->getNumOccurrences()) +
                      " times; give it once");
  return false;
}

// The sets of a request: those of --set, or the one of --rule and --storage. 0, or 1
// after a diagnostic.
static int readSets(const Options &options, StepRequest &step) {
  bool one = options.rule.getNumOccurrences() > 0;
  if (one && !options.sets.empty())
    return complain("--set and --rule exclude each other; write the rule into a set: --set=\"rule=adamw\"");
  if (!one && options.storage.getNumOccurrences())
    return complain("--storage wants --rule; with --set the words follow the rule: "
                    "--set=\"rule=adamw m=bf16\"");
  if (options.sets.size() > ALTGRAD_SETS)
    return complain(Twine(options.sets.size()) + " sets of tensors, at most " + Twine(int(ALTGRAD_SETS)));
  std::string why;
  if (one) {
    step.sets.emplace_back();
    step.sets[0].storage = options.storage;
    why = readRule(options.rule, step.sets[0]);
  }
  for (const std::string &text : options.sets)
    if (step.sets.emplace_back(); why.empty())
      why = readSet(text, step.sets.back());
  if (!why.empty())
    return complain(why);
  for (const cl::Option *option : std::initializer_list<const cl::Option *>{
           &options.clip, &options.profile, &options.clipValue, &options.norm, &options.perTensor, &options.unscale,
           &options.scaler, &options.statistics, &options.quantize, &options.scales, &options.entry,
           &options.printStep})
    if (option->getNumOccurrences() && step.sets.empty() && !(step.lossScaler && option == &options.printStep))
      return complain("--" + option->ArgStr + " wants --rule or --set");
  for (const auto *option : {&options.quantize, &options.scales, &options.entry})
    if (option->getNumOccurrences() && option->getValue().empty())
      return complain("--" + option->ArgStr + " has no value");
  return 0;
}

// What does not go together. 0, or 1 after a diagnostic.
static int checkStep(const StepRequest &step) {
  if (step.unscale + step.scaler + step.lossScaler.has_value() > 1)
    return complain("--unscale, --scaler and --loss-scaler exclude each other");
  if (step.clip && step.clipValue)
    return complain("--clip and --clip-value exclude each other");
  if (step.perTensor && !step.clip && !step.norm)
    return complain("--per-tensor wants --clip or --norm");
  if (step.adapts() && (step.norm || (step.perTensor && step.clipsToParameters())))
    return complain("--clip=agc and --clip=percentile have the l2 norm, and agc "
                    "is per tensor; leave out --norm and --per-tensor");
  if (step.asTorch && (step.adapts() || step.clipValue || step.norm || step.perTensor))
    return complain("--profile=torch goes with --clip by the global l2 norm alone");
  auto isRuled = [](const SetRequest &set) { return set.ruled; };
  if (!step.quantize.empty() && (step.changes() || step.norm || llvm::any_of(step.sets, isRuled)))
    return complain("--quantize wants sets without a rule, and nothing beside it");
  auto isQuantized = [&](const Preset &preset) { return preset.name == step.quantize; };
  if (!step.quantize.empty() && llvm::none_of(presets, isQuantized))
    return complain("--quantize: " + FormatAttr::unknown(step.quantize));
  if (!step.scales.empty() && step.quantize.empty())
    return complain("--scales wants --quantize");
  if (step.sets.empty() || llvm::all_of(step.sets, isRuled))
    return 0;
  if (llvm::any_of(step.sets, isRuled))
    return complain("a set without a rule beside one with a rule; give all of them "
                    "rule=, or none");
  if (step.scaler || step.lossScaler)
    return complain((step.scaler ? "--scaler" : "--loss-scaler") +
                    Twine(" wants a rule; gradients alone take --unscale"));
  if (step.statistics)
    return complain("--statistics wants a rule");
  if (step.adapts() || step.asTorch)
    return complain(Twine(step.asTorch ? "--profile=torch" : "--clip=agc and --clip=percentile") +
                    Twine(step.asTorch ? " wants a rule" : " want a rule"));
  if (!step.changes() && !step.norm && step.quantize.empty())
    return complain("a set without a rule wants --clip, --clip-value, --norm, --quantize "
                    "or --unscale");
  return 0;
}

// What --analyze is given. 0, or 1 after a diagnostic.
static int readAnalysis(const Options &options, CompileRequest &request) {
  if (!options.analyze.getNumOccurrences())
    return 0;
  if (options.emit.getNumOccurrences() || options.printStep)
    return complain("--analyze and --emit or --print-step exclude each other");
  request.product = Product::Analysis;
  std::string why = readValues(options.analyze, request.values);
  return why.empty() ? 0 : complain(why);
}

// Options that the product has no use for. 0, or 1 after a diagnostic.
static int checkProduct(const Options &options, const CompileRequest &request) {
  if (options.printStep && options.emit.getNumOccurrences())
    return complain("--print-step and --emit exclude each other; the step is printed before any pass");
  bool before = request.product == Product::MLIR || request.product == Product::Analysis;
  if (before && options.targets.getNumOccurrences())
    return complain("--target is for --emit=llvm, asm, ptx, resources, report, manifest and bundle; a step in phases "
                    "and its analysis are of all targets");
  return 0;
}

// Takes the command line; whether it could, after a diagnostic if not. LLVM names the
// word that it does not know, and what it takes no option's value for.
static bool parseOptions(int argc, char **argv, const cl::OptionCategory &own) {
  SmallVector<StringRef> known;
  for (auto &[name, option] : cl::getRegisteredOptions()) {
    if (llvm::is_contained(option->Categories, &own) && !name.empty())
      known.push_back(name);
    for (int i = 1; i < argc; ++i)
      if (StringRef(argv[i]).ltrim('-') == name && argv[i][0] == '-' &&
          option->getValueExpectedFlag() == cl::ValueRequired &&
          (i + 1 == argc || StringRef(argv[i + 1]).starts_with("--")))
        return !complain("--" + name + " has no value; write --" + name + "=" +
                         (option->ValueStr.empty() ? "..." : option->ValueStr));
  }
  std::string message;
  llvm::raw_string_ostream out(message);
  if (cl::ParseCommandLineOptions(argc, argv, overview, &out))
    return true;
  if (StringRef(message).contains("Too many positional"))
    return !complain("more than one input is given, and one step is compiled at a time; "
                     "other words are options and begin with --");
  auto [before, word] = StringRef(message).split("Unknown command line argument '");
  if (word.empty()) // what an option says of its value is printed
    return message.empty() ? false : !complain(StringRef(message).split(": ").second.split('\n').first);
  word = word.split('\'').first;
  StringRef name = word.ltrim('-').split('=').first, meant = closestSpelling(name, known);
  return !complain("unknown option '" + word + "'; " + (meant.empty() ? "" : "did you mean '--" + meant.str() + "'? ") +
                   "altgrad-opt --help lists the options");
}

int altgrad::emitProduct(int argc, char **argv) {
  if (rejectArguments(argc, argv))
    return 1;
  acceptRenamed(argc, argv);
  unregisterForeignOptions();
  CompileRequest request;
  Options options(request);
  request.passOptions = parsePassOptions(argc, argv);
  cl::SetVersionPrinter(
      [](llvm::raw_ostream &out) { out << "altgrad-opt " ALTGRAD_VERSION " (LLVM " LLVM_VERSION_STRING ")\n"; });
  if (!parseOptions(argc, argv, options.category) || hasRepeatedOption(options.category))
    return 1;
  // Copied: LLD forgets all options of the process when it links.
  const std::string output = options.output;
  request.targets.assign(options.targets.begin(), options.targets.end());
  request.step.asTorch = options.profile == "torch";
  if (options.clip.getNumOccurrences())
    request.step.clip = options.clip;
  if (options.norm.getNumOccurrences())
    request.step.norm = options.norm;
  if (options.listTargets || options.listFormats || options.listOps || options.listCoefficients ||
      options.listRules.getNumOccurrences())
    return list(options);
  if (options.ptxas.getNumOccurrences() && options.emit != Product::Bundle)
    return complain("--ptxas wants --emit=bundle");
  if (options.expectRemoteProducts && !options.exchange)
    return complain("--expect-remote-products wants --exchange");
  if (options.profile != "torch" && options.profile != "default")
    return complain("unknown profile '" + options.profile + "'" +
                    describeChoices(options.profile, {"default", "torch"}));
  if (options.lossScaler.getNumOccurrences())
    request.step.lossScaler = options.lossScaler;
  if (readSets(options, request.step) || checkStep(request.step) || readAnalysis(options, request) ||
      checkProduct(options, request))
    return 1;

  std::string product;
  LogicalResult result = failure();
  // The back ends end a process over what they cannot select; say so instead.
  llvm::CrashRecoveryContext::Enable();
  llvm::CrashRecoveryContext recovery;
  if (!recovery.RunSafely([&] { result = Compiler(request).run(product); }))
    return complain("the back end failed on this step");
  if (failed(result))
    return 1;
  return writeProduct(product, output);
}
