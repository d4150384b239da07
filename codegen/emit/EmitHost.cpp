// x86-64 code by LLVM, and its link to a shared object by LLD, in process.
#include "codegen/emit/Code.h"

#include "altgrad/bundle.h"
#include "lld/Common/Driver.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace altgrad;

static constexpr llvm::StringLiteral hostTriple = "x86_64-unknown-linux-gnu";

static std::unique_ptr<llvm::TargetMachine> makeMachine(StringRef cpu) {
  static const bool once = [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    return true;
  }();
  (void)once;
  std::string error;
  llvm::Triple triple(hostTriple);
  const auto *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, cpu, /*Features=*/"", {}, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Default));
}

static FailureOr<std::string> generate(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType type,
                                       Location loc) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type)) {
    emitError(loc) << "the x86-64 back end cannot emit this file type";
    return failure();
  }
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

FailureOr<std::string> altgrad::emitHost(ModuleOp op, const Target &target, HostForm form) {
  auto machine = makeMachine(target.name);
  if (!machine) {
    op.emitError() << "this LLVM has no x86-64 back end";
    return failure();
  }
  llvm::LLVMContext context;
  auto module = translateModuleToLLVMIR(op, context, "altgrad");
  if (!module)
    return failure();
  module->setTargetTriple(llvm::Triple(hostTriple));
  module->setDataLayout(machine->createDataLayout());
  // An explicit vector stays one register, whatever the CPU prefers.
  std::string bits = std::to_string(target.vectorWidth * 32);
  for (llvm::Function &function : *module) {
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
  }
  optimize(*module, *machine);
  if (form == HostForm::LLVMIR) {
    std::string text;
    llvm::raw_string_ostream(text) << *module;
    return text;
  }
  return generate(*module, *machine,
                  form == HostForm::Assembly ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile,
                  op.getLoc());
}

FailureOr<std::string> altgrad::emitConstants(Location loc, StringRef manifest, ArrayRef<GpuCode> gpu) {
  auto machine = makeMachine("x86-64-v3");
  if (!machine)
    return failure();
  llvm::LLVMContext context;
  llvm::Module module("altgrad", context);
  module.setTargetTriple(llvm::Triple(hostTriple));
  module.setDataLayout(machine->createDataLayout());
  auto add = [&](const Twine &name, StringRef bytes, bool text = true) {
    auto *data = llvm::ConstantDataArray::getString(context, bytes, text);
    auto *global = new llvm::GlobalVariable(module, data->getType(), /*isConstant=*/true,
                                            llvm::GlobalValue::ExternalLinkage, data, name);
    global->setAlignment(llvm::Align(16));
  };
  add("altgrad_manifest", manifest);
  auto *word = llvm::Type::getInt64Ty(context);
  new llvm::GlobalVariable(module, word, /*isConstant=*/false, llvm::GlobalValue::ExternalLinkage,
                           llvm::ConstantInt::get(word, 0), "altgrad_prefetch");
  for (const GpuCode &code : gpu) {
    add("altgrad_ptx_" + code.target, code.ptx);
    if (!code.cubin.empty())
      add("altgrad_cubin_" + code.target, code.cubin, /*text=*/false);
  }
  return generate(module, *machine, llvm::CodeGenFileType::ObjectFile, loc);
}

/// Ends a bundle with the digest that the runtime checks before anything looks into the file.
static std::string appendDigest(std::string bundle) {
  bundle += ALTGRAD_BUNDLE_END;
  const auto digest = llvm::SHA256::hash(llvm::arrayRefFromStringRef(bundle));
  return bundle.append(digest.begin(), digest.end());
}

FailureOr<std::string> altgrad::linkShared(ArrayRef<std::string> objects) {
  Scratch scratch;
  std::vector<std::string> words{"ld.lld",      "-shared",
                                 "--strip-all", "--build-id=none",
                                 "--threads=1", "-z",
                                 "noexecstack", "-soname=altgrad-bundle.so",
                                 "-o",          scratch.file("bundle.so")};
  for (auto [number, object] : llvm::enumerate(objects)) {
    std::string name = std::to_string(number) + ".o";
    scratch.write(name, object);
    words.push_back(scratch.file(name));
  }
  auto arguments = llvm::map_to_vector(words, [](const std::string &word) { return word.c_str(); });
  std::string errors = scratch.error ? scratch.error.message() : "";
  llvm::raw_string_ostream stream(errors);
  if (!scratch.error && lld::lldMain(arguments, llvm::nulls(), stream, {{lld::Gnu, &lld::elf::link}}).retCode == 0)
    return appendDigest(scratch.read("bundle.so"));
  llvm::errs() << "altgrad-opt: error: cannot link: " << errors << "\n";
  return failure();
}
