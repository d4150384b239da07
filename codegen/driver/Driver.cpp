// The command line of altgrad-opt as a compiler.
#include "codegen/driver/Driver.h"

#include "altgrad/bundle.h"
#include "codegen/analyze/Analyze.h"
#include "codegen/driver/Compiler.h"
#include "codegen/driver/Output.h"
#include "dialect/Arithmetic.h"
#include "passes/RulePath.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/CrashRecoveryContext.h"

using namespace mlir;
using namespace altgrad;
namespace cl = llvm::cl;

namespace {
// The options, alive while a product is made; mlir-opt's own never meet them.
struct Options {
  cl::OptionCategory category{"altgrad-opt options"};
  cl::opt<std::string> input{cl::Positional, cl::desc("<spec.mlir, - for stdin>"),
                             cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("Where to write (- for stdout)"),
                              cl::value_desc("file"), cl::init("-"),
                              cl::cat(category)};
  cl::opt<Product> emit{
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
          "nearest_even, toward_zero, stochastic or stochastic32, saturate or nonfinite"),
      cl::cat(category)};
  cl::list<std::string> sets{
      "set",
      cl::desc("A set of tensors of the generated step, its rule and its "
               "storage: \"rule=adamw{amsgrad} param=bf16 states=param\"; "
               "may be given for every kind of tensors. Without a rule "
               "gradients are the result, in place or elsewhere: "
               "\"grad=bf16\", \"grad=bf16 copy=f32\""),
      cl::cat(category)};
  cl::opt<bool> exchange{
      "exchange", cl::desc("Let step-wide sums be combined with other devices' "
                           "between two phases"),
      cl::cat(category)};
  cl::opt<Clip> clip{
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
  cl::opt<bool> clipValue{
      "clip-value", cl::desc("Clip each element of a gradient, to clip_value"),
      cl::cat(category)};
  cl::opt<NormKind> norm{
      "norm", cl::desc("Give the norm of all gradients; what --clip clips by"),
      cl::values(clEnumValN(NormKind::L1, "l1", "the sum of magnitudes"),
                 clEnumValN(NormKind::L2, "l2", "the Euclidean norm"),
                 clEnumValN(NormKind::LInf, "linf", "the largest magnitude")),
      cl::init(NormKind::L2), cl::cat(category)};
  cl::opt<bool> perTensor{
      "per-tensor", cl::desc("With --clip or --norm: a norm for each tensor"),
      cl::cat(category)};
  cl::opt<bool> unscale{
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
  cl::opt<bool> scaler{"scaler",
                       cl::desc("Take torch's grad_scale and found_inf"),
                       cl::cat(category)};
  cl::opt<Scaler> lossScaler{
      "loss-scaler",
      cl::desc("Unscale, skip if a gradient is not finite, and compute the next "
               "loss scale; without --rule or --set only this"),
      cl::values(clEnumValN(Scaler::Torch, "torch", "grows at the interval, never "
                                                    "to an infinity"),
                 clEnumValN(Scaler::Boostr, "boostr", "grows at the interval or "
                                                      "beyond it")),
      cl::cat(category)};
  cl::opt<bool> statistics{
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
  cl::opt<bool> printStep{"print-step", cl::desc("With --rule: print the step as "
                                            "generated and stop"),
                     cl::cat(category)};
  cl::opt<bool> canonicalize{"canonicalize", cl::init(true),
                             cl::desc("Simplify between passes"),
                             cl::cat(category)};
  cl::opt<bool> listFormats{"list-formats", cl::desc("List the named formats"),
                            cl::cat(category)};
  cl::opt<bool> listOperations{
      "list-ops", cl::desc("List the operations that a rule may hold"),
      cl::cat(category)};
  cl::opt<bool> listRules{"list-rules", cl::desc("List the rules found"),
                          cl::cat(category)};
  cl::opt<bool> listTargets{"list-targets", cl::desc("List the machines"),
                            cl::cat(category)};
};

} // namespace

bool altgrad::asksForProduct(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    StringRef word(argv[i]);
    if (!word.consume_front("--") && !word.consume_front("-"))
      continue;
    for (StringRef own : {"emit", "rule", "set", "storage", "clip", "clip-value", "norm", "per-tensor",
                          "unscale", "scaler", "loss-scaler", "quantize", "scales", "statistics", "profile",
                          "analyze", "print-step", "list-rules", "list-targets", "list-formats", "list-ops", "version",
                          "help"})
      if (word == own || (word.starts_with(own) && word.size() > own.size() &&
                          word[own.size()] == '='))
        return true;
  }
  return false;
}

static int list(const Options &options) {
  std::string text;
  if (options.listTargets)
    for (const Target &target : getTargets())
      text += target.name.str() +
              (target.isPtx() ? " (PTX " + target.ptx.str() + ")" : "") + "\n";
  if (options.listFormats)
    text += listFormats();
  if (options.listOperations)
    text += listOperations();
  if (options.listRules)
    for (const std::string &name : listRules(options.rulePath))
      text += name + "\n";
  return writeProduct(text, "-");
}

// Lines end options on their way through the C ABI, and LLVM would take the words of
// a command line from a file.
static bool refuseWords(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    StringRef word(argv[i]);
    if (word.starts_with("@"))
      return complain("'" + word + "' would read arguments from a file; write ./" + word);
    auto *control = llvm::find_if(word, [](char c) { return iscntrl(static_cast<unsigned char>(c)); });
    if (control != word.end())
      return complain("argument " + Twine(i) + " has a control character, byte " +
                      Twine(int(*control)) + ", at " + Twine(control - word.begin()));
  }
  return false;
}

// LLVM registers hundreds of options; some of them write files.
static void forgetForeignOptions(const cl::OptionCategory &own) {
  SmallVector<cl::Option *> foreign;
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (!llvm::is_contained(option->Categories, &own) &&
        option->Categories[0]->getName() != "Generic Options")
      foreign.push_back(option);
  for (cl::Option *option : foreign)
    option->removeArgument();
}

// The last one would win, and a request is often put together from parts.
static bool repeats(const cl::OptionCategory &own) {
  for (auto &[name, option] : cl::getRegisteredOptions())
    if (llvm::is_contained(option->Categories, &own) &&
        option->getNumOccurrencesFlag() == cl::Optional &&
        option->getNumOccurrences() > 1)
      return complain("--" + option->ArgStr + " is given " +
                      Twine(option->getNumOccurrences()) + " times");
  return false;
}

// The sets of a request: those of --set, or the one of --rule and --storage. 0, or 1
// after a diagnostic.
static int readSets(const Options &options, StepRequest &step) {
  bool one = options.rule.getNumOccurrences() > 0;
  if (one && !options.sets.empty())
    return complain("--set and --rule exclude each other");
  if (!one && options.storage.getNumOccurrences())
    return complain("--storage wants --rule");
  if (options.sets.size() > ALTGRAD_SETS)
    return complain(Twine(options.sets.size()) + " sets of tensors, at most " +
                    Twine(int(ALTGRAD_SETS)));
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
           &options.clip, &options.profile, &options.clipValue, &options.norm,
           &options.perTensor, &options.unscale, &options.scaler,
           &options.statistics, &options.quantize, &options.scales,
           &options.printStep})
    if (option->getNumOccurrences() && step.sets.empty() &&
        !(step.lossScaler && option == &options.printStep))
      return complain("--" + option->ArgStr + " wants --rule or --set");
  for (const cl::opt<std::string> *option : {&options.quantize, &options.scales})
    if (option->getNumOccurrences() && option->empty())
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
  if (step.adapts() &&
      (step.norm || (step.perTensor && step.clipsToParameters())))
    return complain(
        "--clip=agc and --clip=percentile have the l2 norm, and agc "
        "is per tensor; leave out --norm and --per-tensor");
  if (step.asTorch &&
      (step.adapts() || step.clipValue || step.norm || step.perTensor))
    return complain(
        "--profile=torch goes with --clip by the global l2 norm alone");
  auto isRuled = [](const SetRequest &set) { return set.ruled; };
  if (!step.quantize.empty() &&
      (step.changes() || step.norm || llvm::any_of(step.sets, isRuled)))
    return complain("--quantize wants sets without a rule, and nothing beside it");
  if (!step.scales.empty() && step.quantize.empty())
    return complain("--scales wants --quantize");
  if (step.sets.empty() || llvm::all_of(step.sets, isRuled))
    return 0;
  if (llvm::any_of(step.sets, isRuled))
    return complain("a set without a rule beside one with a rule");
  if (step.scaler || step.lossScaler)
    return complain((step.scaler ? "--scaler" : "--loss-scaler") +
                    Twine(" wants a rule; gradients alone take --unscale"));
  if (step.statistics)
    return complain("--statistics wants a rule");
  if (step.adapts() || step.asTorch)
    return complain(Twine(step.asTorch ? "--profile=torch"
                                       : "--clip=agc and --clip=percentile") +
                    Twine(step.asTorch ? " wants a rule" : " want a rule"));
  if (!step.changes() && !step.norm && step.quantize.empty())
    return complain(
        "a set without a rule wants --clip, --clip-value, --norm, --quantize "
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

int altgrad::emitProduct(int argc, char **argv) {
  if (refuseWords(argc, argv))
    return 1;
  Options options;
  forgetForeignOptions(options.category);
  cl::SetVersionPrinter([](llvm::raw_ostream &out) {
    out << "altgrad-opt " ALTGRAD_VERSION " (LLVM " LLVM_VERSION_STRING ")\n";
  });
  cl::ParseCommandLineOptions(
      argc, argv,
      "altgrad-opt: the optimizer compiler\n\nWithout --emit or --rule it is "
      "mlir-opt for the altgrad dialect: try --show-dialects, "
      "--pass-pipeline=...\n");
  if (repeats(options.category))
    return 1;
  // Copied: LLD forgets all options of the process when it links.
  const std::string output = options.output;
  CompileRequest request;
  request.product = options.emit;
  request.input = options.input;
  request.targets.assign(options.targets.begin(), options.targets.end());
  request.printStep = options.printStep;
  request.canonicalize = options.canonicalize;
  request.rulePath = options.rulePath;
  request.ptxas = options.ptxas;
  if (options.clip.getNumOccurrences())
    request.step.clip = options.clip;
  request.step.asTorch = options.profile == "torch";
  request.step.clipValue = options.clipValue;
  request.step.quantize = options.quantize;
  request.step.scales = options.scales;
  if (options.norm.getNumOccurrences())
    request.step.norm = options.norm;
  request.step.perTensor = options.perTensor;
  request.step.unscale = options.unscale;
  request.step.scaler = options.scaler;
  request.step.statistics = options.statistics;
  request.exchange = request.step.exchange = options.exchange;
  if (options.listTargets || options.listFormats || options.listRules ||
      options.listOperations)
    return list(options);
  if (options.ptxas.getNumOccurrences() && options.emit != Product::Bundle)
    return complain("--ptxas wants --emit=bundle");
  if (options.profile != "torch" && options.profile != "default")
    return complain("unknown profile '" + options.profile +
                    "'; there are default and torch");
  if (options.lossScaler.getNumOccurrences())
    request.step.lossScaler = options.lossScaler;
  if (readSets(options, request.step) || checkStep(request.step) ||
      readAnalysis(options, request))
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
