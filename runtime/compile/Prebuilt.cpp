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

// Why the code of this file of a folder must not run; null when it may, and then its bytes are there.
const char *readTrusted(const Descriptor &folder, const std::string &name, uid_t owner, std::vector<char> &bytes) {
  Descriptor file(openat(folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const char *defect = file ? trustDefect(file.get(), false, owner) : strerror(errno);
  return defect || readAll(file.get(), mostEntryBytes, bytes) ? defect : strerror(errno);
}

// What becomes of a loss scale needs no rule.
bool isOfLossScale(const std::string &option) { return option.rfind("--loss-scaler=", 0) == 0; }

} // namespace

Strings altgrad::runtime::templateFolders(const std::string &folder) {
  return {folder + "/../templates", folder + "/../../templates", folder + "/templates",
          folder + "/../share/altgrad/templates"};
}

std::string altgrad::runtime::prebuiltKey(const Strings &templates, const Strings &given) {
  const Strings options = canonical(given);
  Strings names;
  auto isKnown = [](const std::string &option) { return isWithoutRule(option) || isOfLossScale(option); };
  if (!plainRules(options, names) || (names.empty() && std::none_of(options.begin(), options.end(), isKnown)))
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

bool altgrad::runtime::findPrebuilt(const std::string &libraryFolder, const std::string &key,
                                    std::vector<char> &bundle) {
  struct stat library;
  if (stat(libraryFolder.c_str(), &library) != 0)
    return false;
  const std::string name = entryName(key);
  for (const char *place : {"/../bundles", "/bundles"}) {
    std::string path = libraryFolder + place;
    Descriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!folder || (faccessat(folder.get(), name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT))
      continue;
    // The library's owner could replace the library, too.
    const char *defect = trustDefect(folder.get(), true, library.st_uid);
    if (!defect) {
      path += "/" + name;
      defect = readTrusted(folder, name, library.st_uid, bundle);
    }
    if (!defect && !unpackEntry(key, bundle))
      defect = "is damaged";
    if (!defect)
      return true;
    bundle.clear();
    warnOnce(Warning::Prebuilt, "%s: %s; it is passed over", path.c_str(), defect);
  }
  return false;
}
