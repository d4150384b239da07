// PTX text, in process and without a CUDA toolkit.
#include "codegen/emit/Code.h"

#include "mlir/Target/LLVM/ModuleToObject.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace altgrad;

namespace {
// MLIR's serializer, stopped at the text.
struct PtxSerializer : LLVM::ModuleToObject {
  PtxSerializer(Operation &kernels, const Target &target, StringRef features)
      : ModuleToObject(kernels, "nvptx64-nvidia-cuda", target.name, features, /*optLevel=*/2), target(target) {}

  LogicalResult optimizeModule(llvm::Module &, int) override { return success(); }

  FailureOr<SmallVector<char, 0>> moduleToObject(llvm::Module &module) override {
    FailureOr<llvm::TargetMachine *> machine = getOrCreateTargetMachine();
    if (failed(machine))
      return failure();
    optimize(module, **machine);
    resources = fitResources(module, target.gpu);
    FailureOr<SmallString<0>> text =
        translateModuleToISA(module, **machine, [&] { return getOperation().emitError(); });
    if (failed(text))
      return failure();
    return SmallVector<char, 0>(text->begin(), text->end());
  }

  const Target &target;
  std::vector<Resources> resources;
};
} // namespace

static void initializeNvptx() {
  static const bool once = [] {
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)once;
}

FailureOr<Ptx> altgrad::emitPtx(Operation *gpuModule, const Target &target) {
  initializeNvptx();
  auto [major, minor] = target.ptx.split('.');
  std::string features = ("+ptx" + major + minor).str(); // the serializer keeps a reference
  PtxSerializer serializer(*gpuModule, target, features);
  std::optional<SmallVector<char, 0>> text = serializer.run();
  if (!text)
    return failure();
  // LLVM ends the text with the NUL that the driver's loader wants.
  return Ptx{StringRef(text->data(), text->size()).rtrim('\0').str(), std::move(serializer.resources)};
}
