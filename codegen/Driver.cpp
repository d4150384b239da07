// From a command line to a product.
#include "codegen/Driver.h"

#include "codegen/Emit.h"
#include "codegen/Passes.h"
#include "codegen/ReadSpec.h"
#include "codegen/Register.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "passes/Passes.h"
#include "passes/RulePath.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace altgrad;
namespace cl = llvm::cl;

namespace {
enum class Product { MLIR, LLVM, Assembly, PTX, Report, Manifest, Bundle };

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
      cl::values(clEnumValN(Product::MLIR, "mlir", "the step in sweeps"),
                 clEnumValN(Product::LLVM, "llvm", "LLVM IR for one target"),
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
                       "options in braces: adam{amsgrad}"),
      cl::cat(category)};
  cl::opt<std::string> storage{
      "storage",
      cl::desc("Formats of the generated step's streams: \"param=bf16 "
               "master=f32 m=bf16 copy=ocp.e4m3fn\"; f32 where unnamed"),
      cl::cat(category)};
  cl::opt<bool> clip{"clip", cl::desc("Clip by the global norm, to max_norm"),
                     cl::cat(category)};
  cl::opt<bool> unscale{
      "unscale", cl::desc("Multiply gradients by inv_scale, skip if one is not "
                          "finite, say so in found_inf"),
      cl::cat(category)};
  cl::opt<bool> scaler{"scaler",
                       cl::desc("Take torch's grad_scale and found_inf"),
                       cl::cat(category)};
  cl::opt<std::string> rulePath{"rule-path",
                                cl::desc("Folders of rules, by colons"),
                                cl::cat(category)};
  cl::opt<bool> step{"print-step", cl::desc("With --rule: print the step as "
                                            "generated and stop"),
                     cl::cat(category)};
  cl::opt<bool> canonicalize{"canonicalize", cl::init(true),
                             cl::desc("Simplify between passes"),
                             cl::cat(category)};
  cl::opt<bool> listRules{"list-rules", cl::desc("List the rules found"),
                          cl::cat(category)};
  cl::opt<bool> listTargets{"list-targets", cl::desc("List the machines"),
                            cl::cat(category)};
};

class Compiler {
public:
  explicit Compiler(Options &options) : options(options) {}
  LogicalResult run(std::string &product);

private:
  LogicalResult findTargets();
  LogicalResult read(std::string &text, std::string &name);
  LogicalResult generate(std::string &text);
  LogicalResult lowerToSweeps();
  FailureOr<OwningOpRef<ModuleOp>> lowerTo(const Target &target);
  FailureOr<std::string> ptxOf(const Target &target);
  FailureOr<std::string> bundle();
  LogicalResult fail(const Twine &words);
  StepOp theStep() { return *module->getOps<StepOp>().begin(); }

  Options &options;
  std::unique_ptr<MLIRContext> context;
  SmallVector<const Target *> targets;
  OwningOpRef<ModuleOp> module;
  Signature signature;
  PhasePlan plan;
};
} // namespace

LogicalResult Compiler::fail(const Twine &words) {
  llvm::errs() << "altgrad-opt: error: " << words << "\n";
  return failure();
}

LogicalResult Compiler::findTargets() {
  for (const std::string &name : options.targets) {
    const Target *target = findTarget(name);
    if (!target)
      return fail("unknown target '" + name + "'; see --list-targets");
    if (!llvm::is_contained(targets, target))
      targets.push_back(target);
  }
  bool single = options.emit == Product::LLVM || options.emit == Product::PTX ||
                options.emit == Product::Assembly;
  if (targets.empty() && options.emit == Product::Bundle)
    for (const char *name : {"x86-64-v3", "x86-64-v4", "sm_80", "sm_90"})
      targets.push_back(findTarget(name));
  if (single && targets.size() != 1)
    return fail("this --emit wants one --target, got " +
                Twine(targets.size()));
  if (options.emit == Product::PTX && !targets[0]->isPtx())
    return fail("'" + targets[0]->name + "' has no PTX");
  if (options.emit == Product::Assembly && targets[0]->isPtx())
    return fail("'" + targets[0]->name + "' has no assembly; use --emit=ptx");
  return success();
}

LogicalResult Compiler::generate(std::string &text) {
  StringRef spelled = options.rule;
  StepRequest request;
  auto [name, rest] = spelled.split('{');
  if (rest.consume_back("}")) {
    SmallVector<StringRef> words;
    rest.split(words, ',', -1, /*KeepEmpty=*/false);
    for (StringRef word : words)
      request.options.push_back(word.trim().str());
  } else if (spelled.contains('{')) {
    return fail("--rule='" + spelled + "' lacks a closing brace");
  }
  request.rule = name.str();
  request.storage = options.storage;
  request.clip = options.clip;
  request.unscale = options.unscale;
  request.scaler = options.scaler;
  if (request.unscale && request.scaler)
    return fail("--unscale and --scaler exclude each other");
  // A file given beside --rule may hold the rule itself.
  OwningOpRef<RuleOp> rule;
  if (!text.empty()) {
    OwningOpRef<ModuleOp> file =
        parseSourceString<ModuleOp>(text, ParserConfig(context.get()),
                                    options.input);
    if (!file)
      return failure();
    if (request.rule.empty())
      for (RuleOp found : file->getOps<RuleOp>())
        request.rule = found.getSymName().str();
    if (auto found = file->lookupSymbol<RuleOp>(request.rule))
      rule = found.clone();
  }
  if (!rule)
    rule = findRule(request.rule, options.rulePath,
                    UnknownLoc::get(context.get()));
  if (!rule)
    return failure();
  FailureOr<std::string> step = generateStep(request, *rule);
  if (failed(step))
    return failure();
  if (text.empty())
    text = *step;
  else
    text += "\n" + *step;
  return success();
}

LogicalResult Compiler::read(std::string &text, std::string &name) {
  bool generated = options.rule.getNumOccurrences() > 0;
  name = options.input.empty() && generated ? "<generated>"
                                            : options.input.getValue();
  if (options.input.empty() && !generated)
    return fail("no input; see --help");
  if (!options.input.empty()) {
    std::string words;
    auto file = openInputFile(options.input, &words);
    if (!file)
      return fail(words);
    text = file->getBuffer().str();
    unsigned line, column;
    if (std::string why = refuseSpec(text, line, column); !why.empty()) {
      llvm::errs() << (name == "-" ? "<stdin>" : name) << ":" << line << ":"
                   << column << ": error: " << why << "\n";
      return failure();
    }
  }
  return success();
}

// Everything up to the sweeps, which all products share.
LogicalResult Compiler::lowerToSweeps() {
  SmallVector<StepOp> steps(module->getOps<StepOp>());
  if (steps.size() != 1)
    return module->emitError()
           << "holds " << steps.size() << " steps, expected 1";
  SmallVector<OwningOpRef<RuleOp>> read;
  signature = describeStep(steps[0], [&](UpdateOp update) -> RuleOp {
    if (auto rule = module->lookupSymbol<RuleOp>(update.getRule()))
      return rule;
    OwningOpRef<RuleOp> rule =
        findRule(update.getRule(), options.rulePath, update->getLoc());
    if (!rule)
      return {};
    RuleOp found = rule.release();
    module->insert(module->getBody()->begin(), found);
    return found;
  });
  PassManager manager(context.get());
  manager.enableVerifier(true);
  SweepPipelineOptions pipeline;
  pipeline.rulePath = options.rulePath;
  pipeline.canonicalize = options.canonicalize;
  buildSweepPipeline(manager, pipeline);
  if (failed(manager.run(*module)))
    return failure();
  FailureOr<PhasePlan> planned = planPhases(theStep());
  if (failed(planned))
    return failure();
  plan = *planned;
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> Compiler::lowerTo(const Target &target) {
  OwningOpRef<ModuleOp> lowered(cast<ModuleOp>((*module)->clone()));
  PassManager manager(context.get());
  buildKernelPipeline(manager, target, options.canonicalize);
  if (failed(manager.run(*lowered)))
    return failure();
  return lowered;
}

FailureOr<std::string> Compiler::ptxOf(const Target &target) {
  auto lowered = lowerTo(target);
  if (failed(lowered))
    return failure();
  for (auto kernels : (*lowered)->getOps<gpu::GPUModuleOp>())
    return emitPtx(kernels, target);
  return failure();
}

FailureOr<std::string> Compiler::bundle() {
  std::vector<std::string> objects;
  std::vector<std::pair<std::string, std::string>> ptx;
  for (const Target *target : targets) {
    if (target->isPtx()) {
      FailureOr<std::string> text = ptxOf(*target);
      if (failed(text))
        return failure();
      ptx.push_back({target->name.str(), *text});
      continue;
    }
    auto lowered = lowerTo(*target);
    if (failed(lowered))
      return failure();
    FailureOr<std::string> object =
        emitHost(**lowered, *target, HostForm::Object);
    if (failed(object))
      return failure();
    objects.push_back(*object);
  }
  std::string manifest;
  llvm::raw_string_ostream(manifest) << llvm::json::Value(
      writeManifest(signature, theStep(), plan, targets));
  FailureOr<std::string> constants =
      emitConstants(module->getLoc(), manifest, ptx);
  if (failed(constants))
    return failure();
  objects.push_back(*constants);
  return linkShared(module->getLoc(), objects);
}

LogicalResult Compiler::run(std::string &product) {
  if (failed(findTargets()))
    return failure();
  DialectRegistry registry;
  registerDialects(registry);
  context = std::make_unique<MLIRContext>(registry,
                                          MLIRContext::Threading::DISABLED);
  context->printOpOnDiagnostic(false);
  std::string text, name;
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, context.get(), llvm::errs());
  if (failed(read(text, name)))
    return failure();
  if (options.rule.getNumOccurrences() && failed(generate(text)))
    return failure();
  if (options.step) {
    product = text;
    return success();
  }
  sources.AddNewSourceBuffer(
      llvm::MemoryBuffer::getMemBufferCopy(text,
                                           name == "-" ? "<stdin>" : name),
      llvm::SMLoc());
  module = parseSourceFile<ModuleOp>(sources, ParserConfig(context.get()));
  if (!module || failed(lowerToSweeps()))
    return failure();

  FailureOr<std::string> made = std::string();
  llvm::raw_string_ostream out(*made);
  switch (options.emit) {
  case Product::MLIR:
    out << *module << "\n";
    break;
  case Product::Report:
    out << writeReport(signature, theStep(), plan);
    break;
  case Product::Manifest:
    out << llvm::formatv("{0:2}\n", llvm::json::Value(writeManifest(
                                        signature, theStep(), plan, targets)));
    break;
  case Product::PTX:
    made = ptxOf(*targets[0]);
    break;
  case Product::Bundle:
    made = bundle();
    break;
  case Product::LLVM:
  case Product::Assembly: {
    auto lowered = lowerTo(*targets[0]);
    if (failed(lowered))
      return failure();
    made = emitHost(**lowered, *targets[0],
                    options.emit == Product::LLVM ? HostForm::LLVMIR
                                                  : HostForm::Assembly);
    break;
  }
  }
  if (failed(made))
    return failure();
  product = *made;
  return success();
}

bool altgrad::asksForProduct(int argc, char **argv) {
  for (int i = 1; i < argc; ++i) {
    StringRef word(argv[i]);
    word.consume_front("-");
    word.consume_front("-");
    for (StringRef own : {"emit", "rule=", "rule", "list-rules", "list-targets",
                          "version", "help"})
      if (word == own || (word.starts_with(own) && word.size() > own.size() &&
                          word[own.size()] == '='))
        return true;
  }
  return false;
}

// Rules lie beside the program in a checkout and in an installation.
static std::string defaultRulePath(const char *program) {
  static int anchor;
  std::string self = llvm::sys::fs::getMainExecutable(program, &anchor);
  std::string path = "templates";
  for (const char *relative :
       {"../templates", "../../templates", "../share/altgrad/templates"}) {
    llvm::SmallString<128> folder(llvm::sys::path::parent_path(self));
    llvm::sys::path::append(folder, relative);
    if (llvm::sys::fs::is_directory(folder))
      path += (":" + folder).str();
  }
  return path;
}

int altgrad::emitProduct(int argc, char **argv) {
  Options options;
  cl::HideUnrelatedOptions(options.category);
  cl::SetVersionPrinter([](llvm::raw_ostream &out) {
    out << "altgrad-opt " ALTGRAD_VERSION " (LLVM " LLVM_VERSION_STRING ")\n";
  });
  cl::ParseCommandLineOptions(
      argc, argv,
      "altgrad-opt: the optimizer compiler\n\nWithout --emit or --rule it is "
      "mlir-opt for the altgrad dialect: try --show-dialects, "
      "--pass-pipeline=...\n");
  if (options.rulePath.empty())
    options.rulePath = defaultRulePath(argv[0]);
  if (options.listTargets) {
    for (const Target &target : getTargets())
      llvm::outs() << target.name
                   << (target.isPtx() ? " (PTX " + target.ptx.str() + ")" : "")
                   << "\n";
    return 0;
  }
  if (options.listRules) {
    for (const std::string &name : listRules(options.rulePath))
      llvm::outs() << name << "\n";
    return 0;
  }
  std::string product;
  // Copied: LLD forgets all options of the process when it links.
  const std::string output = options.output;
  LogicalResult result = failure();
  // The back ends end a process over what they cannot select; say so instead.
  llvm::CrashRecoveryContext::Enable();
  llvm::CrashRecoveryContext recovery;
  if (!recovery.RunSafely(
          [&] { result = Compiler(options).run(product); })) {
    llvm::errs() << "altgrad-opt: error: the back end failed on this step\n";
    return 1;
  }
  if (failed(result))
    return 1;
  std::string words;
  auto file = openOutputFile(output, &words);
  if (!file) {
    llvm::errs() << "altgrad-opt: error: " << words << "\n";
    return 1;
  }
  file->os() << product;
  file->os().flush();
  if (file->os().has_error()) {
    llvm::errs() << "altgrad-opt: error: cannot write '" << output
                 << "': " << file->os().error().message() << "\n";
    file->os().clear_error();
    return 1;
  }
  file->keep();
  return 0;
}
