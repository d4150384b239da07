// The compiler: see codegen/Driver.h.
#include "codegen/Passes.h"
#include "dialect/Dialect.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "passes/Passes.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<altgrad::AltgradDialect,mlir::arith::ArithDialect,mlir::math::MathDialect>();
  altgrad::registerAltgradPasses();
  altgrad::registerAltgradCodegenPasses();
  altgrad::registerPipelines();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "altgrad\n", registry));
}
