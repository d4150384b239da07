// altgrad-opt as a compiler: `--emit=` and its options; what tools register and say.
#ifndef ALTGRAD_CODEGEN_DRIVER_DRIVER_H
#define ALTGRAD_CODEGEN_DRIVER_DRIVER_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/Twine.h"
#include <string>

namespace mlir {
class DialectRegistry;
}

namespace altgrad {

/// Whether the command line asks for a product (--emit, --rule, --list-…,
/// --version, --help) and not for mlir-opt's passes.
bool isCompilerCommand(int argc, char **argv);

/// Reads a step or generates one, compiles it, writes the product. Exit code: 0,
/// or 1 after a diagnostic; then nothing is written.
int emitProduct(int argc, char **argv);

/// Everything that a tool must register.
void registerDialects(mlir::DialectRegistry &registry);
void registerPasses();

/// Says why on stderr; 1, the exit code.
int complain(const llvm::Twine &words);
/// Writes to `path`, stdout for "-". Exit code: 0, or 1 after a diagnostic.
int writeProduct(llvm::StringRef product, const std::string &path);

/// A line for each machine.
std::string listTargets();

/// A paragraph for each rule that is found on `path`: its name and first comment, then
/// its states, hyper-parameters, options, and the words that a storage line may have.
/// Fails after a diagnostic where a file holds no rule that can be read; the others are
/// in `text`.
mlir::LogicalResult describeRules(llvm::StringRef path, std::string &text);

} // namespace altgrad

#endif // ALTGRAD_CODEGEN_DRIVER_DRIVER_H
