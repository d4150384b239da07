// Machine code of PTX by NVIDIA's ptxas, which is a program of the CUDA
// toolkit.
#include "codegen/emit/Code.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mlir;
using namespace altgrad;

using Listing = llvm::sys::fs::directory_iterator;

Scratch::Scratch() : umaskBefore(umask(077)) {
  llvm::sys::path::system_temp_directory(/*erasedOnReboot=*/true, folder);
  llvm::sys::path::append(folder, "altgrad-XXXXXX");
  const char *made = mkdtemp(const_cast<char *>(folder.c_str()));
  if (made) // children inherit the descriptor
    descriptor = open(made, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (descriptor < 0)
    error.assign(errno, std::generic_category());
  if (!made)
    folder.clear();
  // What is opened may be another folder already.
  struct stat info;
  if (!error && (fstat(descriptor, &info) || info.st_uid != geteuid() || (info.st_mode & 0777) != 0700 ||
                 Listing(file(""), error) != Listing()))
    error = std::make_error_code(std::errc::permission_denied);
}

Scratch::~Scratch() {
  umask(umaskBefore);
  std::error_code failed = error;
  for (Listing item(file(""), failed); !error && !failed && item != Listing(); item.increment(failed))
    llvm::sys::fs::remove(item->path());
  if (descriptor >= 0)
    close(descriptor);
  if (!folder.empty())
    rmdir(folder.c_str());
}

std::string Scratch::file(StringRef name) const { return ("/proc/self/fd/" + Twine(descriptor) + "/" + name).str(); }

void Scratch::write(StringRef name, StringRef bytes) {
  if (error)
    return;
  llvm::raw_fd_ostream stream(file(name), error);
  stream << bytes;
  stream.close();
  if (stream.has_error()) {
    error = stream.error();
    stream.clear_error();
  }
}

std::string Scratch::read(StringRef name) const {
  auto found = llvm::MemoryBuffer::getFile(file(name));
  return found ? (*found)->getBuffer().str() : "";
}

static FailureOr<std::string> complain(StringRef ptxas, StringRef words) {
  llvm::errs() << "altgrad-opt: error: '" << ptxas << "': " << words << "\n";
  return failure();
}

FailureOr<std::string> altgrad::assemble(StringRef ptx, const Target &target, StringRef ptxas) {
  Scratch scratch;
  std::string text = scratch.file("step.ptx"), cubin = scratch.file("step.cubin"), words = scratch.file("words");
  scratch.write("step.ptx", ptx);
  if (scratch.error)
    return complain(ptxas, scratch.error.message());
  std::string why;
  std::string arch = "-arch=" + target.name.str();
  // Nothing else: the file's options are in its notes, and equal input must
  // give equal bytes.
  std::optional<StringRef> redirects[] = {StringRef(), StringRef(words), StringRef(words)};
  int code =
      llvm::sys::ExecuteAndWait(ptxas, {ptxas, arch, text, "-o", cubin}, std::nullopt, redirects, /*SecondsToWait=*/60,
                                /*MemoryLimit=*/0, &why);
  std::string bytes = scratch.read("step.cubin");
  if (code == 0 && StringRef(bytes).starts_with("\x7f"
                                                "ELF"))
    return bytes;
  if (why.empty())
    why = StringRef(scratch.read("words")).trim().str();
  return complain(ptxas, why.empty() ? "wrote no cubin" : why);
}
