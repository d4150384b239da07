// Machine code of PTX by NVIDIA's ptxas, which is a program of the CUDA
// toolkit.
#include "codegen/emit/Code.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace altgrad;

namespace {
// A folder of our own, gone at the end of the scope.
struct Scratch {
  llvm::SmallString<128> folder;
  std::error_code error = llvm::sys::fs::createUniqueDirectory("altgrad", folder);
  ~Scratch() {
    if (!error)
      llvm::sys::fs::remove_directories(folder);
  }
  std::string file(StringRef name) const { return (folder + "/" + name).str(); }
};
} // namespace

static std::string contentsOf(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  return file ? (*file)->getBuffer().str() : "";
}

static FailureOr<std::string> complain(StringRef ptxas, StringRef words) {
  llvm::errs() << "altgrad-opt: error: '" << ptxas << "': " << words << "\n";
  return failure();
}

FailureOr<std::string> altgrad::assemble(StringRef ptx, const Target &target, StringRef ptxas) {
  Scratch scratch;
  if (scratch.error)
    return complain(ptxas, scratch.error.message());
  std::string text = scratch.file("step.ptx"), cubin = scratch.file("step.cubin");
  std::string words = scratch.file("words");
  std::error_code error;
  {
    llvm::raw_fd_ostream stream(text, error);
    stream << ptx;
    stream.close();
    if (stream.has_error()) {
      error = stream.error();
      stream.clear_error();
    }
  }
  if (error)
    return complain(ptxas, error.message());
  std::string why;
  std::string arch = "-arch=" + target.name.str();
  // Nothing else: the file's options are in its notes, and equal input must
  // give equal bytes.
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(words), StringRef(words)};
  int code =
      llvm::sys::ExecuteAndWait(ptxas, {ptxas, arch, text, "-o", cubin}, std::nullopt, redirects, /*SecondsToWait=*/60,
                                /*MemoryLimit=*/0, &why);
  std::string bytes = contentsOf(cubin);
  if (code == 0 && StringRef(bytes).starts_with("\x7f"
                                                "ELF"))
    return bytes;
  if (why.empty())
    why = StringRef(contentsOf(words)).trim().str();
  return complain(ptxas, why.empty() ? "wrote no cubin" : why);
}
