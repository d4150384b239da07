// Finds bundles that were built with the library; tools/stock-bundles.cpp makes them.
#include "compile/Prebuilt.h"
#include "Status.h"
#include "files/Cache.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

constexpr size_t mostEntryBytes = size_t(1) << 30;

// Why the code of this file must not run; null when it may. Who owns the library's
// folder, or is of a group that may write to it, could replace the library, too.
const char *defectOf(const Descriptor &file, const struct stat &library) {
  struct stat info;
  if (fstat(file.get(), &info) != 0)
    return strerror(errno);
  if (!S_ISREG(info.st_mode))
    return "is not a file";
  if (info.st_uid != 0 && info.st_uid != geteuid() &&
      info.st_uid != library.st_uid)
    return "belongs to another user";
  bool groups = library.st_mode & 020 && library.st_gid == info.st_gid;
  return info.st_mode & (groups ? 002 : 022) ? "is writable by others" : nullptr;
}

// What becomes of a loss scale needs no rule.
bool isOfLossScale(const std::string &option) {
  return option.rfind("--loss-scaler=", 0) == 0;
}

} // namespace

Strings altgrad::runtime::templateFolders(const std::string &folder) {
  return {folder + "/../templates", folder + "/../../templates",
          folder + "/templates", folder + "/../share/altgrad/templates"};
}

std::string altgrad::runtime::prebuiltKey(const Strings &templates,
                                          const Strings &given) {
  const Strings options = canonical(given);
  Strings names;
  auto isKnown = [](const std::string &option) {
    return isWithoutRule(option) || isOfLossScale(option);
  };
  if (!plainRules(options, names) ||
      (names.empty() && std::none_of(options.begin(), options.end(), isKnown)))
    return "";
  std::string key = "altgrad stock 2\n";
  addPart(key, "version", altgrad_version());
  for (const std::string &option : options)
    addPart(key, "option", option);
  for (const std::string &name : names) {
    std::string digest = stockDigest(templates, name);
    if (digest.empty())
      return "";
    addPart(key, name.c_str(), digest);
  }
  return key;
}

bool altgrad::runtime::findPrebuilt(const std::string &libraryFolder,
                                    const std::string &key,
                                    std::vector<char> &bundle) {
  struct stat library;
  if (stat(libraryFolder.c_str(), &library) != 0)
    return false;
  for (const char *place : {"/../bundles/", "/bundles/"}) {
    std::string path = libraryFolder + place + entryName(key);
    Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!file && (errno == ENOENT || errno == ENOTDIR))
      continue;
    const char *defect = file ? defectOf(file, library) : strerror(errno);
    if (!defect && !readAll(file.get(), mostEntryBytes, bundle))
      defect = strerror(errno);
    if (!defect && !unpackEntry(key, bundle))
      defect = "is damaged";
    if (!defect)
      return true;
    bundle.clear();
    warnOnce(Warning::Prebuilt, "%s: %s; it is passed over", path.c_str(),
             defect);
  }
  return false;
}
