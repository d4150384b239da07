// Finds altgrad-opt and identifies it.
#include "compile/Compiler.h"
#include "files/File.h"
#include "compile/Rules.h"
#include "files/Sha256.h"
#include "Status.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

// The head of the note in which a linker keeps its build id, the SHA-1 of what it has
// linked: lengths of the name and of the id, type, name. It lies in front of all code.
constexpr char buildNote[] = "\4\0\0\0\24\0\0\0\3\0\0\0GNU";
constexpr size_t buildBytes = 20, headBytes = 4096;

bool isProgram(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  std::string folder = libraryFolder();
  if (!folder.empty()) {
    paths.push_back(folder + "/altgrad-opt");
    paths.push_back(folder + "/../bin/altgrad-opt");
  }
  const char *path = secure_getenv("PATH");
  std::string list = path ? path : "";
  for (size_t start = 0; start < list.size();) {
    size_t end = std::min(list.find(':', start), list.size());
    // An empty or relative entry means the current folder: not for us.
    if (list[start] == '/')
      paths.push_back(list.substr(start, end - start) + "/altgrad-opt");
    start = end + 1;
  }
  return paths;
}

// The same for the same program, wherever it lies and whoever has stripped it.
altgrad_status identify(Compiler &compiler) {
  Descriptor file(open(compiler.path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<char> bytes;
  if (!file || !readAll(file.get(), headBytes, bytes))
    return fail(ALTGRAD_NOT_FOUND, "%s: %s", compiler.path.c_str(), strerror(errno));
  auto note = std::search(bytes.begin(), bytes.end(), std::begin(buildNote), std::end(buildNote));
  if (size_t(bytes.end() - note) >= sizeof buildNote + buildBytes) {
    note += sizeof buildNote;
    compiler.identity.assign(note, note + buildBytes);
    return ALTGRAD_OK;
  }
  lseek(file.get(), 0, SEEK_SET);
  if (!readAll(file.get(), SIZE_MAX, bytes))
    return fail(ALTGRAD_SYSTEM, "%s: %s", compiler.path.c_str(), strerror(errno));
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  compiler.identity = hexadecimal(hash.finish());
  return ALTGRAD_OK;
}

} // namespace

std::string altgrad::runtime::libraryFolder() {
  Dl_info library;
  // A relative name is relative to a folder that may be another one now.
  if (!dladdr((void *)(&altgrad_compile), &library) || !library.dli_fname || library.dli_fname[0] != '/')
    return "";
  return folderOf(library.dli_fname);
}

altgrad_status altgrad::runtime::findCompiler(const char *given, Compiler &out) {
  const char *variable = secure_getenv("ALTGRAD_OPT");
  if (given || (variable && *variable)) {
    out.path = given ? given : variable;
    if (!isProgram(out.path))
      return fail(ALTGRAD_NOT_FOUND, "compiler %s%s is not a program", out.path.c_str(),
                  given ? "" : " (from ALTGRAD_OPT)");
    return identify(out);
  }
  for (const std::string &path : candidates())
    if (isProgram(path)) {
      out.path = path;
      return identify(out);
    }
  return fail(ALTGRAD_NOT_FOUND, "no compiler: altgrad-opt is neither in "
                                 "ALTGRAD_OPT, nor beside this library, nor "
                                 "on PATH");
}
