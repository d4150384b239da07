// The compiler, and mlir-opt for the altgrad dialect.
#include "codegen/driver/Driver.h"
#include "dialect/frontend/FriendlyDiagnostics.h"
#include "dialect/frontend/ReadSpec.h"
#include "dialect/frontend/RuleText.h"

#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/SourceMgr.h"
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

// A rule in short text as mlir-opt reads it, with the places of the short one; nothing after a diagnostic.
static std::optional<std::string> writeLong(llvm::StringRef text, llvm::StringRef name,
                                            const mlir::DialectRegistry &registry) {
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, name), {});
  mlir::SourceMgrDiagnosticHandler handler(sources, &context, llvm::errs());
  mlir::OwningOpRef<mlir::ModuleOp> module = altgrad::parseText(sources, &context);
  if (!module)
    return std::nullopt;
  std::string printed;
  llvm::raw_string_ostream out(printed);
  module->print(out, mlir::OpPrintingFlags().enableDebugInfo());
  return printed;
}

// mlir-opt reads without a limit, so the text goes through ours first. What it has to read in place of `input` becomes
// its stdin.
static bool prepareInput(std::string &input, const mlir::DialectRegistry &registry) {
  altgrad::Spec spec = altgrad::readSpec(input);
  std::string name = input == "-" ? "<stdin>" : input;
  if (!spec.why.empty() && !spec.line)
    return !altgrad::complain(spec.why);
  if (!spec.why.empty()) {
    llvm::errs() << name << ":" << spec.line << ":" << spec.column << ": error: " << spec.why << "\n";
    return false;
  }
  std::optional<std::string> text = spec.text;
  if (altgrad::isShortText(spec.text))
    text = writeLong(spec.text, name, registry);
  else if (input != "-")
    return true;
  input = "-";
  int file = text ? memfd_create("stdin", MFD_CLOEXEC) : -1;
  return file >= 0 && write(file, text->data(), text->size()) == ssize_t(text->size()) &&
         lseek(file, 0, SEEK_SET) == 0 && dup2(file, 0) == 0;
}

int main(int argc, char **argv) {
  openStandardStreams();
  signal(SIGCHLD, SIG_DFL); // where a caller ignores it, nobody learns how ptxas ended
  for (llvm::StringRef word : llvm::ArrayRef(argv, argc).drop_front()) // as opt of LLVM has it
    if (word.ltrim('-').starts_with("print-ir-"))
      return altgrad::complain("unknown option '" + word + "'; did you mean '--mlir-" + word.ltrim('-') + "'?");
  if (altgrad::isCompilerCommand(argc, argv))
    return altgrad::emitProduct(argc, argv);
  mlir::DialectRegistry registry;
  altgrad::registerDialects(registry);
  altgrad::registerFriendlyDiagnostics(registry);
  altgrad::registerPasses();
  auto [input, output] =
      mlir::registerAndParseCLIOptions(argc, argv, "altgrad-opt: passes over the altgrad dialect\n", registry);
  auto config = mlir::MlirOptMainConfig::createFromCLOptions();
  if (!config.shouldShowDialects() && !config.shouldListPasses() && !prepareInput(input, registry))
    return 1;
  // Remarks of steps in two threads would overwrite each other (LLVM 22).
  if (config.shouldEmitRemarks())
    llvm::cl::getRegisteredOptions().lookup("mlir-disable-threading")->addOccurrence(1, "", "true");
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}
