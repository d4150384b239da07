// The compiler, and mlir-opt for the altgrad dialect.
#include "codegen/driver/Driver.h"
#include "dialect/frontend/FriendlyDiagnostics.h"
#include "dialect/frontend/ReadSpec.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include <csignal>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

// A file that is opened must not become the stdout that the caller closed.
static void openStandardStreams() {
  for (int stream : {0, 1, 2})
    if (fcntl(stream, F_GETFD) < 0) // writing to a closed stdout stays an error
      open("/dev/null", stream == 2 ? O_WRONLY : O_RDONLY);
}

// mlir-opt reads without a limit, so the text goes through ours first.
static bool mayBeParsed(llvm::StringRef input) {
  altgrad::Spec spec = altgrad::readSpec(input);
  if (!spec.why.empty() && !spec.line)
    return !altgrad::complain(spec.why);
  if (!spec.why.empty()) {
    llvm::errs() << (input == "-" ? "<stdin>" : input) << ":" << spec.line << ":"
                 << spec.column << ": error: " << spec.why << "\n";
    return false;
  }
  if (input != "-")
    return true;
  int text = memfd_create("stdin", MFD_CLOEXEC);
  return text >= 0 &&
         write(text, spec.text.data(), spec.text.size()) ==
             ssize_t(spec.text.size()) &&
         lseek(text, 0, SEEK_SET) == 0 && dup2(text, 0) == 0;
}

int main(int argc, char **argv) {
  openStandardStreams();
  signal(SIGCHLD, SIG_DFL); // where a caller ignores it, nobody learns how ptxas ended
  if (altgrad::isCompilerCommand(argc, argv))
    return altgrad::emitProduct(argc, argv);
  mlir::DialectRegistry registry;
  altgrad::registerDialects(registry);
  altgrad::registerFriendlyDiagnostics(registry);
  altgrad::registerPasses();
  auto [input, output] = mlir::registerAndParseCLIOptions(
      argc, argv, "altgrad-opt: passes over the altgrad dialect\n", registry);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (!config.shouldShowDialects() && !config.shouldListPasses() &&
      !mayBeParsed(input))
    return 1;
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, input, output, registry));
}
