// Finds altgrad-opt and identifies it and the rules it reads.
#include "compile/Compiler.h"
#include "compile/Child.h"
#include "compile/File.h"
#include "compile/Sha256.h"
#include "Status.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <map>
#include <memory>
#include <mutex>
#include <sys/stat.h>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

constexpr double versionSeconds = 60;
constexpr size_t mostRuleBytes = size_t(1) << 20;

bool isProgram(const std::string &path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         access(path.c_str(), X_OK) == 0;
}

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  Dl_info library;
  // A relative name is relative to a folder that may be another one now.
  if (dladdr((void *)(&altgrad_compile), &library) && library.dli_fname &&
      library.dli_fname[0] == '/') {
    std::string folder = folderOf(library.dli_fname);
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
  static std::mutex lock;
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

void appendRules(const std::string &folder, std::string &out) {
  std::unique_ptr<DIR, int (*)(DIR *)> listing(opendir(folder.c_str()),
                                               closedir);
  std::vector<std::string> names;
  while (dirent *item = listing ? readdir(listing.get()) : nullptr) {
    std::string name = item->d_name;
    if (name.size() > 5 && name.compare(name.size() - 5, 5, ".mlir") == 0)
      names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  for (const std::string &name : names) {
    std::vector<char> bytes;
    std::string path = folder + "/" + name;
    if (readFile(path.c_str(), mostRuleBytes, bytes) != ALTGRAD_OK)
      continue; // the compiler will say so if it needs this one
    Sha256 hash;
    hash.update(bytes.data(), bytes.size());
    out += path + " " + hexadecimal(hash.finish()) + "\n";
  }
}

} // namespace

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

std::string altgrad::runtime::ruleIdentity(const Compiler &compiler,
                                  const std::vector<std::string> &options) {
  std::string folder = folderOf(compiler.path), identity;
  std::vector<std::string> folders = {"templates", folder + "/../templates",
                                      folder + "/../../templates",
                                      folder + "/../share/altgrad/templates"};
  const std::string option = "--rule-path=";
  for (const std::string &line : options)
    for (size_t start = option.size();
         line.compare(0, option.size(), option) == 0 && start < line.size();) {
      size_t end = std::min(line.find_first_of(",:", start), line.size());
      folders.push_back(line.substr(start, end - start));
      start = end + 1;
    }
  for (const std::string &one : folders)
    appendRules(one, identity);
  return identity;
}
