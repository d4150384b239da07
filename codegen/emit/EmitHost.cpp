// x86-64 code by LLVM, and its link to a shared object by LLD, in process.
#include "codegen/emit/Code.h"

#include "lld/Common/Driver.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SHA256.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include <sys/mman.h>
#include <unistd.h>

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
  add("altgrad_manifest_sha256", llvm::toHex(llvm::SHA256::hash(llvm::arrayRefFromStringRef(manifest)), true));
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

namespace {
// A file without a name on any disk.
struct MemoryFile {
  int descriptor;
  MemoryFile() : descriptor(memfd_create("altgrad", MFD_CLOEXEC)) {}
  ~MemoryFile() {
    if (descriptor >= 0)
      close(descriptor);
  }
  MemoryFile(const MemoryFile &) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor); }
  bool write(StringRef bytes) const {
    while (!bytes.empty()) {
      ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
      if (done <= 0)
        return false;
      bytes = bytes.drop_front(done);
    }
    return true;
  }
};
} // namespace

FailureOr<std::string> altgrad::linkShared(ArrayRef<std::string> objects) {
  llvm::SmallString<128> folder;
  if (std::error_code error = llvm::sys::fs::createUniqueDirectory("altgrad", folder)) {
    llvm::errs() << "altgrad-opt: error: cannot link: " << error.message() << "\n";
    return failure();
  }
  std::string output = (folder + "/bundle.so").str();
  std::vector<std::unique_ptr<MemoryFile>> files;
  std::vector<std::string> words{"ld.lld",      "-shared", "--strip-all", "--build-id=none",
                                 "--threads=1", "-z",      "noexecstack", "-soname=altgrad-bundle.so",
                                 "-o",          output};
  bool written = true;
  for (const std::string &object : objects) {
    files.push_back(std::make_unique<MemoryFile>());
    written &= files.back()->write(object);
    words.push_back(files.back()->path());
  }
  std::vector<const char *> arguments;
  for (const std::string &word : words)
    arguments.push_back(word.c_str());
  std::string errors;
  llvm::raw_string_ostream stream(errors);
  bool linked = written && lld::lldMain(arguments, llvm::nulls(), stream, {{lld::Gnu, &lld::elf::link}}).retCode == 0;
  std::string bytes;
  if (linked)
    if (auto file = llvm::MemoryBuffer::getFile(output))
      bytes = (*file)->getBuffer().str();
  llvm::sys::fs::remove(output);
  llvm::sys::fs::remove(folder);
  if (bytes.empty()) {
    llvm::errs() << "altgrad-opt: error: cannot link: " << errors << "\n";
    return failure();
  }
  return bytes;
}
