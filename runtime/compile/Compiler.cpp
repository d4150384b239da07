// Finds altgrad-opt and identifies it.
#include "Forks.h"
#include "compile/Compiler.h"
#include "compile/Child.h"
#include "compile/Rules.h"
#include "Status.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <sys/stat.h>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

constexpr double versionSeconds = 60;

bool isProgram(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(path.c_str(), X_OK) == 0;
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

struct Identities;

altgrad_status identify(Compiler &compiler) {
  struct stat info;
  if (stat(compiler.path.c_str(), &info) != 0)
    return fail(ALTGRAD_NOT_FOUND, "%s: %s", compiler.path.c_str(),
                strerror(errno));
  std::string file = compiler.path + "\n" + std::to_string(info.st_size) + " " +
                     std::to_string(info.st_ino) + " " +
                     std::to_string(info.st_mtim.tv_sec) + "." +
                     std::to_string(info.st_mtim.tv_nsec) + "\n";
  // Asking for the version starts a process: once for every file.
  std::mutex &lock = ForkedLock<Identities>::of();
  static auto &known = *new std::map<std::string, std::string>;
  {
    std::lock_guard<std::mutex> held(lock);
    auto found = known.find(file);
    if (found != known.end()) {
      compiler.identity = found->second;
      return ALTGRAD_OK;
    }
  }
  Child child;
  if (altgrad_status status =
          runChild({compiler.path, "--version"}, "", 0, versionSeconds, child))
    return status;
  if (child.timedOut || child.signal || child.exitCode)
    return fail(ALTGRAD_COMPILE, "%s --version failed: %s",
                compiler.path.c_str(), child.errors.c_str());
  compiler.identity = file + child.output;
  std::lock_guard<std::mutex> held(lock);
  known[file] = compiler.identity;
  return ALTGRAD_OK;
}

} // namespace

std::string altgrad::runtime::libraryFolder() {
  Dl_info library;
  // A relative name is relative to a folder that may be another one now.
  if (!dladdr((void *)(&altgrad_compile), &library) || !library.dli_fname ||
      library.dli_fname[0] != '/')
    return "";
  return folderOf(library.dli_fname);
}

altgrad_status altgrad::runtime::findCompiler(const char *given, Compiler &out) {
  const char *variable = secure_getenv("ALTGRAD_OPT");
  if (given || (variable && *variable)) {
    out.path = given ? given : variable;
    if (!isProgram(out.path))
      return fail(ALTGRAD_NOT_FOUND, "compiler %s%s is not a program",
                  out.path.c_str(), given ? "" : " (from ALTGRAD_OPT)");
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
