// Reading or generating a step, lowering it, and making the product.
#include "codegen/driver/Compiler.h"

#include "codegen/Passes.h"
#include "codegen/abi/Manifest.h"
#include "codegen/driver/Driver.h"
#include "dialect/Entries.h"
#include "dialect/SpellCheck.h"
#include "dialect/frontend/FriendlyDiagnostics.h"
#include "dialect/frontend/ReadSpec.h"
#include "dialect/frontend/RulePath.h"
#include "dialect/frontend/RuleText.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace altgrad;

//===-- MLIR's own options ----------------------------------------------------===//

bool altgrad::parsePassOptions(int argc, char **argv) {
  auto isOne = [](StringRef word) { return word.ltrim('-').starts_with("mlir-"); };
  if (!llvm::any_of(llvm::ArrayRef(argv, argc).drop_front(), isOne))
    return false;
  registerPasses(); // the names that --mlir-print-ir-after= takes
  registerPassManagerCLOptions();
  registerDefaultTimingManagerCLOptions();
  return true;
}

PassReports::PassReports(bool wanted) : wanted(wanted) {
  if (!wanted)
    return;
  applyDefaultTimingManagerCLOptions(timing);
  total = timing.getRootScope();
}

LogicalResult PassReports::instrument(PassManager &manager, StringRef pipeline) {
  if (!wanted)
    return success();
  if (failed(applyPassManagerCLOptions(manager)))
    return failure();
  nested = total.nest(pipeline);
  manager.enableTiming(nested);
  return success();
}

//===-- One compilation -----------------------------------------------------===//

LogicalResult Compiler::fail(const Twine &words) { return failure(complain(words)); }

LogicalResult Compiler::findTargets() {
  SmallVector<StringRef> known;
  for (const Target &target : getTargets())
    known.push_back(target.name);
  for (const std::string &name : request.targets) {
    const Target *target = findTarget(name);
    if (!target)
      return fail("unknown target '" + name + "'" + describeChoices(name, known));
    if (!llvm::is_contained(targets, target))
      targets.push_back(target);
  }
  bool ofGpu = request.product == Product::PTX || request.product == Product::Resources;
  bool single = ofGpu || request.product == Product::LLVM || request.product == Product::Assembly;
  // A report is of the program that a bundle has.
  if (targets.empty() && (request.product == Product::Bundle || request.product == Product::Report))
    for (const char *name : {"x86-64-v3", "x86-64-v4", "sm_80", "sm_90"})
      targets.push_back(findTarget(name));
  if (single && targets.size() != 1)
    return fail("this --emit wants one --target, got " + Twine(targets.size()) +
                "; write --target=" + (ofGpu ? "sm_90" : "x86-64-v3"));
  if (ofGpu && !targets[0]->isPtx())
    return fail("'" + targets[0]->name + "' has no PTX; write --target=sm_90, or --emit=asm");
  if (single && !ofGpu && targets[0]->isPtx())
    return fail("'" + targets[0]->name + "' has PTX only; use --emit=ptx");
  return success();
}

// The rule of a set: the only one of the input where none is named, that of a file,
// the input's of that name, a stock rule, or one of the rule path. Null after a
// diagnostic.
RuleOp Compiler::getRule(const SetRequest &set, unsigned index, ModuleOp file) {
  OwningOpRef<RuleOp> &rule = rules[set.rule];
  bool several = request.step.sets.size() > 1;
  Location loc = FileLineColLoc::get(context.get(), describeSource("rule", index, several), 1, 1);
  if (file && set.rule.empty() && !rule)
    rule = getOnlyRule(file, name, loc, request.entry);
  else if (isRuleFile(set.rule) && !rule)
    rule = readRuleFile(set.rule, loc, request.entry);
  else if (auto own = file ? file.lookupSymbol<RuleOp>(set.rule) : RuleOp())
    return findEntry(file, own, request.entry, loc);
  else if (!rule)
    rule = findRule(set.rule, request.rulePath, loc, request.entry);
  return rule.get();
}

// The rules and lines of storage as texts to which columns point.
void Compiler::quoteSets(llvm::SourceMgr &sources) {
  bool several = request.step.sets.size() > 1;
  for (auto [index, set] : llvm::enumerate(request.step.sets))
    for (auto [what, line] : {std::make_pair("rule", &set.spelled), {"storage", &set.storage}})
      sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(*line, describeSource(what, index, several)), {});
}

// Puts the step that is asked for behind what has been read, with the rules that it
// applies. `text` becomes that of all but stock rules.
LogicalResult Compiler::generate(std::string &text) {
  context->loadDialect<AltgradDialect>();
  bool hasFile = bool(module);
  if (!hasFile)
    module = ModuleOp::create(UnknownLoc::get(context.get()));
  SmallVector<RuleOp> found, added;
  std::map<StringRef, RuleOp> names;
  llvm::raw_string_ostream out(text);
  for (auto [index, set] : llvm::enumerate(request.step.sets)) {
    if (!set.ruled) {
      found.emplace_back();
      continue;
    }
    RuleOp rule = getRule(set, index, hasFile ? *module : ModuleOp());
    if (!rule)
      return failure();
    found.push_back(rule);
    auto [it, isNew] = names.try_emplace(rule.getSymName(), rule);
    bool ours = isRuleFile(set.rule), isIn = hasFile && module->lookupSymbol(it->first);
    if (it->second != rule || (ours && isIn))
      return fail("two rules are called '" + it->first + "', one of them '" + set.rule +
                  "'; a step takes one rule of a name");
    if (isNew && !isIn)
      added.push_back(rule);
    if (isNew && !isIn && (ours || !getEntryRule(rule).empty()))
      out << (text.empty() ? "" : "\n") << *rule << "\n";
  }
  StepRequest asked = request.step;
  asked.guards = llvm::any_of(targets, [](const Target *target) { return target->isPtx(); });
  auto step = buildStep(asked, found, *context);
  if (failed(step))
    return failure();
  for (RuleOp rule : added)
    module->push_back(rule.clone());
  StepOp built = step->release();
  module->push_back(built);
  if (failed(verify(*module)))
    return failure();
  if (request.printStep)
    out << (text.empty() ? "" : "\n") << printStep(built);
  return success();
}

// The rules of the text, or those that sets name.
LogicalResult Compiler::writeRules(std::string &product) {
  OwningOpRef<ModuleOp> found;
  if (!request.step.sets.empty()) {
    context->loadDialect<AltgradDialect>();
    found = ModuleOp::create(UnknownLoc::get(context.get()));
  }
  for (auto [index, set] : llvm::enumerate(request.step.sets)) {
    RuleOp rule = getRule(set, index, module ? *module : ModuleOp());
    if (!rule)
      return failure();
    found->push_back(rule.clone());
  }
  product = printRules(found ? *found : *module);
  return product.empty() ? fail("the text has no rule") : success();
}

LogicalResult Compiler::read(std::string &text) {
  name = request.input == "-" ? "<stdin>" : request.input;
  if (request.input.empty() && !request.generates())
    return fail("no input; name a file, - for stdin, or a rule: --rule=adamw");
  if (!request.input.empty()) {
    Spec spec = readSpec(request.input);
    if (!spec.why.empty() && !spec.line)
      return fail(spec.why + (StringRef(request.input).contains('=')
                                  ? "; a storage line is one word: --storage=\"param=bf16 m=bf16\""
                                  : ""));
    if (!spec.why.empty()) {
      llvm::errs() << name << ":" << spec.line << ":" << spec.column << ": error: " << spec.why << "\n";
      return failure();
    }
    text = std::move(spec.text);
  }
  return success();
}

// Rules and one step.
LogicalResult Compiler::checkModule() {
  for (Operation &op : *module->getBody())
    if (!isa<RuleOp, StepOp>(op))
      return op.emitOpError("is neither a rule nor a step");
  SmallVector<StepOp> steps(module->getOps<StepOp>());
  if (steps.size() == 1)
    return success();
  Location start = FileLineColLoc::get(context.get(), name, 1, 1);
  if (!steps.empty())
    return emitError(start) << "the text has " << steps.size() << " steps, and one is compiled at a time";
  auto rules = module->getOps<RuleOp>();
  if (rules.empty())
    return emitError(start) << "the text has no step; write one, or name a rule: --rule=adamw";
  RuleOp rule = *rules.begin();
  std::string flag = ("--rule=" + rule.getSymName()).str();
  return emitError(rule.getLoc()) << "the text has a rule and no step, which says how tensors are stored; add " << flag
                                  << " --storage=\"param=bf16 master=f32\", or " << flag << " alone for f32";
}

RuleOp Compiler::getRule(UpdateOp update) {
  for (auto &[spelled, rule] : rules)
    if (rule && rule->getSymName() == update.getRule())
      return *rule;
  if (auto own = module->lookupSymbol<RuleOp>(update.getRule()))
    return own;
  OwningOpRef<RuleOp> &rule = rules[update.getRule().str()];
  rule = findRule(update.getRule(), request.rulePath, update.getLoc());
  return rule.get();
}

// What is lost in the step as it is written: places are those of its rules, in the
// files that they come from.
FailureOr<Findings> Compiler::findLosses() {
  return analyze(
      getStep(), [&](UpdateOp update) { return getRule(update); }, request.values);
}

LogicalResult Compiler::analyzeStep(std::string &product) {
  if (llvm::Error why = verifyValues(getStep(), request.values))
    return fail(llvm::toString(std::move(why)));
  FailureOr<Findings> findings = findLosses();
  if (succeeded(findings))
    product = writeFindings(getStep(), findings->list);
  return findings;
}

// Everything up to the phases, which all products share.
LogicalResult Compiler::lowerToPhases() {
  PassManager manager(context.get());
  SweepPipelineOptions pipeline;
  pipeline.rulePath = request.rulePath;
  pipeline.exchange = request.step.exchange;
  pipeline.canonicalize = request.canonicalize;
  buildSweepPipeline(manager, pipeline);
  manager.nest<StepOp>().addPass(createPlanPhasesPass({request.step.exchange}));
  if (failed(reports.instrument(manager, "phases")))
    return failure();
  return manager.run(*module);
}

FailureOr<OwningOpRef<ModuleOp>> Compiler::lowerTo(const Target &target) {
  OwningOpRef<ModuleOp> lowered(cast<ModuleOp>((*module)->clone()));
  PassManager manager(context.get());
  buildKernelPipeline(manager, target, request.canonicalize, request.ownProducts);
  if (failed(reports.instrument(manager, target.name)) || failed(manager.run(*lowered)))
    return failure();
  return lowered;
}

FailureOr<Ptx> Compiler::compilePtx(const Target &target) {
  auto lowered = lowerTo(target);
  if (failed(lowered))
    return failure();
  for (auto kernels : (*lowered)->getOps<gpu::GPUModuleOp>())
    return emitPtx(kernels, target);
  return failure();
}

FailureOr<std::string> Compiler::compileHost(const Target &target, HostForm form) {
  auto lowered = lowerTo(target);
  if (failed(lowered))
    return failure();
  return emitHost(**lowered, target, form);
}

// What the manifest says of the step as it is written. Whatever is wrong with it is said when it is lowered.
void Compiler::analyzeForManifest() {
  if (request.product != Product::Bundle && request.product != Product::Manifest)
    return;
  ScopedDiagnosticHandler silence(context.get(), [](Diagnostic &) { return success(); });
  positionDependent = findPositionDependentSets(getStep(), [&](UpdateOp update) { return getRule(update); });
  if (!hasLimits(getStep()))
    return;
  FailureOr<Findings> findings = findLosses();
  if (succeeded(findings))
    limits = std::move(findings->limits);
}

llvm::json::Object Compiler::manifest() {
  llvm::json::Object manifest = writeManifest(getStep(), targets);
  manifest["warnings"] = writeLimits(limits);
  manifest["places"] = llvm::json::Array(positionDependent);
  return manifest;
}

FailureOr<std::string> Compiler::bundle() {
  std::vector<std::string> objects;
  std::vector<GpuCode> gpu;
  for (const Target *target : targets) {
    if (!target->isPtx()) {
      FailureOr<std::string> code = compileHost(*target, HostForm::Object);
      if (failed(code))
        return failure();
      objects.push_back(*code);
      continue;
    }
    FailureOr<Ptx> code = compilePtx(*target);
    if (failed(code))
      return failure();
    FailureOr<std::string> cubin = std::string();
    if (!request.ptxas.empty())
      cubin = assemble(code->text, *target, request.ptxas);
    if (failed(cubin))
      return failure();
    gpu.push_back({target->name, code->text, *cubin});
  }
  std::string manifest;
  llvm::raw_string_ostream(manifest) << llvm::json::Value(this->manifest());
  FailureOr<std::string> constants = emitConstants(module->getLoc(), manifest, gpu);
  if (failed(constants))
    return failure();
  objects.push_back(*constants);
  return linkShared(objects);
}

LogicalResult Compiler::buildProduct(std::string &product) {
  FailureOr<std::string> made = std::string();
  llvm::raw_string_ostream out(*made);
  switch (request.product) {
  case Product::MLIR:
    out << *module << "\n";
    break;
  case Product::Report:
    out << writeReport(getStep());
    break;
  case Product::Manifest:
    out << llvm::formatv("{0:2}\n", llvm::json::Value(manifest()));
    break;
  case Product::PTX:
  case Product::Resources:
    if (FailureOr<Ptx> ptx = compilePtx(*targets[0]); failed(ptx))
      made = failure();
    else
      out << (request.product == Product::PTX ? ptx->text : writeResources(ptx->resources));
    break;
  case Product::LLVM:
    made = compileHost(*targets[0], HostForm::LLVMIR);
    break;
  case Product::Assembly:
    made = compileHost(*targets[0], HostForm::Assembly);
    break;
  case Product::Bundle:
    made = bundle();
    break;
  case Product::Analysis: // made before anything is lowered
    break;
  }
  if (failed(made))
    return failure();
  product = *made;
  return success();
}

LogicalResult Compiler::run(std::string &product) {
  if (failed(findTargets()))
    return failure();
  DialectRegistry registry;
  registerDialects(registry);
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  sources.setVirtualFileSystem(quotedFiles());
  SourceMgrDiagnosticHandler handler(sources, context.get(), llvm::errs());
  FriendlyDiagnostics words(context.get());
  std::string text;
  if (failed(read(text)))
    return failure();
  if (!request.input.empty()) {
    words.quote(name, text);
    sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, name), {});
    module = parseText(sources, context.get());
    if (!module)
      return failure();
  }
  quoteSets(sources);
  if (request.printRule)
    return writeRules(product);
  if (request.generates() && failed(generate(text)))
    return failure();
  if (request.printStep) {
    product = text;
    return success();
  }
  if (failed(checkModule()))
    return failure();
  if (request.product == Product::Analysis)
    return analyzeStep(product);
  analyzeForManifest();
  if (failed(lowerToPhases()))
    return failure();
  return buildProduct(product);
}
