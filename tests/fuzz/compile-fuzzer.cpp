// Feeds bytes to the compiler as --emit does: limits, parser, verifiers, passes,
// code generation. Nothing but a diagnostic may come of them.
#include "codegen/driver/Compiler.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include <climits>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace altgrad;

/// A fault on demand: that the sanitizers of this very build find each kind.
static void plant(const char *fault) {
  static volatile int four = 4;
  static char *volatile kept;
  if (strcmp(fault, "leak") == 0)
    for (int n = 0; n < 2; ++n)
      kept = new char[77]; // the second one hides the first
  if (strcmp(fault, "overflow") == 0)
    kept = new char[4], kept[four] = 1;
  if (strcmp(fault, "undefined") == 0)
    four = INT_MAX - 3 + four;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *fault = getenv("ALTGRAD_PLANT");
  if (fault)
    plant(fault);
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
