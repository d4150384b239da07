// Reading or generating a step, lowering it, and making the product.
#include "codegen/driver/Compiler.h"

#include "codegen/Passes.h"
#include "codegen/driver/Register.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "passes/ReadSpec.h"
#include "passes/RulePath.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace altgrad;

LogicalResult Compiler::fail(const Twine &words) {
  llvm::errs() << "altgrad-opt: error: " << words << "\n";
  return failure();
}

LogicalResult Compiler::findTargets() {
  for (const std::string &name : request.targets) {
    const Target *target = findTarget(name);
    if (!target)
      return fail("unknown target '" + name + "'; see --list-targets");
    if (!llvm::is_contained(targets, target))
      targets.push_back(target);
  }
  bool single = request.product == Product::LLVM ||
                request.product == Product::PTX ||
                request.product == Product::Assembly;
  if (targets.empty() && request.product == Product::Bundle)
    for (const char *name : {"x86-64-v3", "x86-64-v4", "sm_80", "sm_90"})
      targets.push_back(findTarget(name));
  if (single && targets.size() != 1)
    return fail("this --emit wants one --target, got " + Twine(targets.size()));
  if (request.product == Product::PTX && !targets[0]->isPtx())
    return fail("'" + targets[0]->name + "' has no PTX");
  if (single && request.product != Product::PTX && targets[0]->isPtx())
    return fail("'" + targets[0]->name + "' has PTX only; use --emit=ptx");
  return success();
}

// The rule may stand in the input or be a file; otherwise its name is looked up.
LogicalResult Compiler::generate(std::string &text) {
  StepRequest step = request.step;
  OwningOpRef<RuleOp> rule;
  Location loc =
      FileLineColLoc::get(context.get(), "--rule=" + step.rule, 1, 1);
  if (isRuleFile(step.rule)) {
    if (!text.empty())
      return fail("--rule='" + step.rule + "' is a file, and so is the input '" +
                  request.input + "'; the rule comes from one of them");
    if (!(rule = readRuleFile(step.rule, loc)))
      return failure();
    llvm::raw_string_ostream(text) << *rule << "\n";
  } else if (!text.empty()) {
    OwningOpRef<ModuleOp> file =
        parseSourceString<ModuleOp>(text, ParserConfig(context.get()), name);
    if (!file)
      return failure();
    if (step.rule.empty())
      rule = onlyRule(*file, name, loc);
    else if (auto found = file->lookupSymbol<RuleOp>(step.rule))
      rule = found.clone();
    if (!rule && step.rule.empty())
      return failure();
  }
  if (!rule)
    rule = findRule(step.rule, request.rulePath, loc);
  if (!rule)
    return failure();
  FailureOr<std::string> generated = generateStep(step, *rule);
  if (failed(generated))
    return failure();
  text += text.empty() ? *generated : "\n" + *generated;
  return success();
}

LogicalResult Compiler::read(std::string &text) {
  name = request.input.empty() ? "<generated>" : request.input;
  if (name == "-")
    name = "<stdin>";
  if (request.input.empty() && !request.generate)
    return fail("no input; see --help");
  if (!request.input.empty()) {
    Spec spec = readSpec(request.input);
    if (!spec.why.empty() && !spec.line)
      return fail(spec.why);
    if (!spec.why.empty()) {
      llvm::errs() << name << ":" << spec.line << ":" << spec.column
                   << ": error: " << spec.why << "\n";
      return failure();
    }
    text = std::move(spec.text);
  }
  return success();
}

// Everything up to the sweeps, which all products share.
LogicalResult Compiler::lowerToSweeps() {
  for (Operation &op : *module->getBody())
    if (!isa<RuleOp, StepOp>(op))
      return op.emitOpError("is neither a rule nor a step");
  SmallVector<StepOp> steps(module->getOps<StepOp>());
  if (steps.size() != 1)
    return emitError(FileLineColLoc::get(context.get(), name, 1, 1))
           << "spec holds " << steps.size() << " steps, expected 1";
  bool found = true;
  signature = describeStep(steps[0], [&](UpdateOp update) -> RuleOp {
    if (auto rule = module->lookupSymbol<RuleOp>(update.getRule()))
      return rule;
    OwningOpRef<RuleOp> read =
        findRule(update.getRule(), request.rulePath, update->getLoc());
    found &= static_cast<bool>(read);
    if (!read)
      return {};
    RuleOp rule = read.release();
    module->insert(module->getBody()->begin(), rule);
    return rule;
  });
  if (!found)
    return failure();
  PassManager manager(context.get());
  SweepPipelineOptions pipeline;
  pipeline.rulePath = request.rulePath;
  pipeline.canonicalize = request.canonicalize;
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
  buildKernelPipeline(manager, target, request.canonicalize);
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

FailureOr<std::string> Compiler::hostOf(const Target &target, HostForm form) {
  auto lowered = lowerTo(target);
  if (failed(lowered))
    return failure();
  return emitHost(**lowered, target, form);
}

FailureOr<std::string> Compiler::bundle() {
  std::vector<std::string> objects;
  std::vector<std::pair<std::string, std::string>> ptx;
  for (const Target *target : targets) {
    FailureOr<std::string> code = target->isPtx()
                                      ? ptxOf(*target)
                                      : hostOf(*target, HostForm::Object);
    if (failed(code))
      return failure();
    if (target->isPtx())
      ptx.push_back({target->name.str(), *code});
    else
      objects.push_back(*code);
  }
  std::string manifest;
  llvm::raw_string_ostream(manifest) << llvm::json::Value(
      writeManifest(signature, theStep(), plan, targets));
  FailureOr<std::string> constants =
      emitConstants(module->getLoc(), manifest, ptx);
  if (failed(constants))
    return failure();
  objects.push_back(*constants);
  return linkShared(objects);
}

LogicalResult Compiler::make(std::string &product) {
  FailureOr<std::string> made = std::string();
  llvm::raw_string_ostream out(*made);
  switch (request.product) {
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
  case Product::LLVM:
    made = hostOf(*targets[0], HostForm::LLVMIR);
    break;
  case Product::Assembly:
    made = hostOf(*targets[0], HostForm::Assembly);
    break;
  case Product::Bundle:
    made = bundle();
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
  context = std::make_unique<MLIRContext>(registry,
                                          MLIRContext::Threading::DISABLED);
  context->printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  sources.setVirtualFileSystem(quotedFiles());
  SourceMgrDiagnosticHandler handler(sources, context.get(), llvm::errs());
  std::string text;
  if (failed(read(text)))
    return failure();
  if (request.generate && failed(generate(text)))
    return failure();
  if (request.printStep) {
    product = text;
    return success();
  }
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, name),
                             llvm::SMLoc());
  module = parseSourceFile<ModuleOp>(sources, ParserConfig(context.get()));
  if (!module || failed(lowerToSweeps()))
    return failure();
  return make(product);
}
