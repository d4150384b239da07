// What the program says: diagnostics, and a product in its file.
#include "codegen/driver/Driver.h"

#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace altgrad;

int altgrad::complain(const Twine &words) {
  llvm::errs() << "altgrad-opt: error: " << words << "\n";
  return 1;
}

static int writeTo(llvm::raw_fd_ostream &stream, StringRef product, const std::string &path) {
  stream << product;
  stream.flush();
  if (!stream.has_error())
    return 0;
  std::string reason = stream.error().message();
  stream.clear_error();
  return complain("cannot write '" + path + "': " + reason);
}

// A file is replaced when the new one is whole; what is no file is written to.
int altgrad::writeProduct(StringRef product, const std::string &path) {
  namespace fs = llvm::sys::fs;
  llvm::SmallString<128> target(path);
  if (path != "-" &&
      (fs::is_regular_file(path) ? !fs::real_path(path, target) : !fs::exists(path) && !fs::is_symlink_file(path))) {
    auto file = fs::TempFile::create(target + ".%%%%%%%%");
    if (file) {
      llvm::raw_fd_ostream stream(file->FD, /*shouldClose=*/false);
      int code = writeTo(stream, product, path);
      llvm::Error error = code ? file->discard() : file->keep(target);
      if (error && !code)
        return complain("cannot write '" + path + "': " + toString(std::move(error)));
      consumeError(std::move(error));
      return code;
    }
    consumeError(file.takeError()); // the folder may take no new file
  }
  std::string words;
  auto file = openOutputFile(path, &words);
  if (!file)
    return complain(words);
  int code = writeTo(file->os(), product, path);
  if (!code)
    file->keep();
  return code;
}
