// The dialects altgrad reads and writes, how the last of them become LLVM IR,
// and all passes by name.
#include "codegen/driver/Driver.h"

#include "codegen/Passes.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

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
