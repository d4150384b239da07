// scf, arith, math, vector ==> llvm.
#include "codegen/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Transforms/DialectConversion.h"
#include "passes/Forms.h"

namespace altgrad {
#define GEN_PASS_DEF_LOWERTOLLVMPASS
#include "codegen/Passes.h.inc"
} // namespace altgrad

using namespace mlir;
using namespace altgrad;

namespace {
struct ToLLVM : altgrad::impl::LowerToLLVMPassBase<ToLLVM> {
  void runOnOperation() override {
    if (failed(checkLowered(getOperation(), getArgument(), /*numerics=*/true)))
      return signalPassFailure();
    MLIRContext *context = &getContext();
    LLVMTypeConverter types(context);
    RewritePatternSet patterns(context);
    populateSCFToControlFlowConversionPatterns(patterns);
    cf::populateControlFlowToLLVMConversionPatterns(types, patterns);
    arith::populateArithToLLVMConversionPatterns(types, patterns);
    populateMathToLLVMConversionPatterns(types, patterns,
                                         /*approximateLog1p=*/false);
    populateVectorToLLVMConversionPatterns(types, patterns);
    LLVMConversionTarget target(*context);
    target.addLegalDialect<NVVM::NVVMDialect, gpu::GPUDialect>();
    target.addLegalOp<ModuleOp>();
    target.markUnknownOpDynamicallyLegal([](Operation *) { return false; });
    if (failed(applyFullConversion(getOperation(), target, std::move(patterns))))
      return signalPassFailure();
    // The conversion of loops leaves it where the translation does not look.
    getOperation()->walk([](LLVM::BrOp branch) {
      if (Attribute loop = branch->removeDiscardableAttr("llvm.loop_annotation"))
        branch.setLoopAnnotationAttr(cast<LLVM::LoopAnnotationAttr>(loop));
    });
  }
};
} // namespace
