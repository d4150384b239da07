// PTX text, in process and without a CUDA toolkit.
#include "codegen/Emit.h"

#include "mlir/Target/LLVM/ModuleToObject.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace altgrad;

namespace {
// MLIR's serializer, stopped at the text.
struct PtxSerializer : LLVM::ModuleToObject {
  using ModuleToObject::ModuleToObject;

  FailureOr<SmallVector<char, 0>>
  moduleToObject(llvm::Module &module) override {
    FailureOr<llvm::TargetMachine *> machine = getOrCreateTargetMachine();
    if (failed(machine))
      return failure();
    FailureOr<SmallString<0>> text = translateModuleToISA(
        module, **machine, [&] { return getOperation().emitError(); });
    if (failed(text))
      return failure();
    return SmallVector<char, 0>(text->begin(), text->end());
  }
};
} // namespace

static void initializeNvptx() {
  static const bool once = [] {
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    // Both keep 64-bit numbers where a kernel of 256 threads lacks registers:
    // a pointer per stream and loop, an index per chunk.
    auto &all = llvm::cl::getRegisteredOptions();
    for (auto [name, value] : {std::pair("disable-lsr", true),
                               std::pair("indvars-widen-indvars", false)})
      if (auto it = all.find(name); it != all.end())
        static_cast<llvm::cl::opt<bool> *>(it->second)->setValue(value);
    return true;
  }();
  (void)once;
}

FailureOr<std::string> altgrad::emitPtx(Operation *gpuModule,
                                        const Target &target) {
  initializeNvptx();
  std::string features = "+ptx";
  for (char c : target.ptx)
    if (c != '.')
      features += c;
  PtxSerializer serializer(*gpuModule, "nvptx64-nvidia-cuda", target.chip,
                           features, /*optLevel=*/2);
  std::optional<SmallVector<char, 0>> text = serializer.run();
  if (!text)
    return failure();
  // LLVM ends the text with the NUL that the driver's loader wants.
  while (!text->empty() && text->back() == '\0')
    text->pop_back();
  return std::string(text->begin(), text->end());
}
