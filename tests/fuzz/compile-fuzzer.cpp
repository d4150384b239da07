// Feeds bytes to the compiler as --emit does: limits, parser, verifiers, passes,
// code generation. Nothing but a diagnostic may come of them.
#include "codegen/Compiler.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <cstdlib>
#include <sys/mman.h>
#include <unistd.h>

using namespace altgrad;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A memory file: the compiler reads specs by name.
  static const int file = memfd_create("spec", MFD_CLOEXEC);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) < 0)
    abort();
  CompileRequest request;
  request.input = "/proc/self/fd/" + std::to_string(file);
  request.rulePath = std::getenv("ALTGRAD_TEMPLATES");
  // PTX for most inputs; the report, which stops at the sweeps, for the others.
  request.product = size % 4 ? Product::PTX : Product::Report;
  if (request.product == Product::PTX)
    request.targets = {size % 2 ? "sm_80" : "sm_90"};
  std::string product;
  bool made = succeeded(Compiler(request).run(product));
  if (made == product.empty())
    abort(); // a product without success, or success without a product
  return 0;
}
