// The compiler, and mlir-opt for the altgrad dialect.
#include "codegen/driver/Driver.h"
#include "codegen/driver/Register.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  if (altgrad::asksForProduct(argc, argv))
    return altgrad::emitProduct(argc, argv);
  mlir::DialectRegistry registry;
  altgrad::registerDialects(registry);
  altgrad::registerPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "altgrad-opt: passes over the altgrad dialect\n", registry));
}
