// The cache on disk. Its checksums find accidents, its owner and mode checks
// keep other users out; equal keys give equal bytes, so there are no locks.
#include "files/Cache.h"
#include "files/Sha256.h"
#include "Status.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dirent.h>
#include <fcntl.h>
#include <memory>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

constexpr char magic[16] = "altgrad bundle\n";
constexpr uint64_t entryVersion = 1;
constexpr size_t mostEntryBytes = size_t(1) << 30;
constexpr uint64_t defaultCapacity = uint64_t(512) << 20;
constexpr time_t staleSeconds = 24 * 3600;
constexpr char suffix[] = ".bundle";
constexpr char temporaryPrefix[] = ".tmp-";

// An entry is bundle, key, footer. The digest covers all bytes before it.
struct Footer {
  char magic[16];
  uint64_t version, bundleBytes, keyBytes;
  Sha256::Digest digest;
};
static_assert(sizeof(Footer) == 72, "no padding: every bit is checked");

std::string environment(const char *name) {
  const char *value = secure_getenv(name);
  return value ? value : "";
}

// By the XDG rules a relative path of theirs is as good as none.
std::string directoryPath() {
  std::string path = environment("ALTGRAD_CACHE_DIR");
  if (!path.empty())
    return path;
  path = environment("XDG_CACHE_HOME");
  if (!path.empty() && path[0] == '/')
    return path + "/altgrad";
  path = environment("HOME");
  return path.empty() || path[0] != '/' ? "" : path + "/.cache/altgrad";
}

void makeDirectories(const std::string &path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
    mkdir(path.substr(0, slash).c_str(), 0700);
  mkdir(path.c_str(), 0700);
}

bool startsWith(const char *text, const char *prefix) { return strncmp(text, prefix, strlen(prefix)) == 0; }

std::string temporaryName() {
  uint64_t random = 0;
  if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
    random = uint64_t(clock());
  char name[64];
  snprintf(name, sizeof name, "%s%ld-%016llx", temporaryPrefix, long(getpid()), (unsigned long long)random);
  return name;
}

uint64_t capacity() {
  std::string given = environment("ALTGRAD_CACHE_MAXSIZE");
  char *end = nullptr;
  uint64_t bytes = strtoull(given.c_str(), &end, 10);
  return given.empty() || *end ? defaultCapacity : bytes;
}

struct CacheFile {
  std::string name;
  uint64_t bytes;
  timespec used;
};

} // namespace

std::string altgrad::runtime::entryName(const std::string &key) {
  Sha256 hash;
  hash.update(key.data(), key.size());
  return hexadecimal(hash.finish()) + suffix;
}

std::vector<char> altgrad::runtime::packEntry(const std::string &key, const std::vector<char> &bundle) {
  Footer footer;
  memcpy(footer.magic, magic, sizeof magic);
  footer.version = entryVersion;
  footer.bundleBytes = bundle.size();
  footer.keyBytes = key.size();
  std::vector<char> entry(bundle);
  entry.insert(entry.end(), key.begin(), key.end());
  auto *start = reinterpret_cast<const char *>(&footer);
  entry.insert(entry.end(), start, start + offsetof(Footer, digest));
  Sha256 hash;
  hash.update(entry.data(), entry.size());
  footer.digest = hash.finish();
  entry.insert(entry.end(), footer.digest.begin(), footer.digest.end());
  return entry;
}

bool altgrad::runtime::unpackEntry(const std::string &key, std::vector<char> &entry) {
  Footer footer;
  if (entry.size() < sizeof footer + key.size())
    return false;
  size_t before = entry.size() - sizeof footer;
  memcpy(&footer, entry.data() + before, sizeof footer);
  if (memcmp(footer.magic, magic, sizeof magic) != 0 || footer.version != entryVersion ||
      footer.keyBytes != key.size() || footer.bundleBytes != before - key.size())
    return false;
  Sha256 hash;
  hash.update(entry.data(), before + offsetof(Footer, digest));
  if (hash.finish() != footer.digest || memcmp(entry.data() + footer.bundleBytes, key.data(), key.size()) != 0)
    return false;
  entry.resize(footer.bundleBytes);
  return true;
}

// Opens the folder, or says why nothing in it may be used.
static const char *openFolder(const std::string &path, Descriptor &out) {
  if (path[0] != '/')
    return "is a relative path, which names another folder in every working directory; name an absolute one";
  makeDirectories(path);
  // O_NOFOLLOW refuses a symlink as the last component.
  out.reset(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (out)
    return trustDefect(out.get(), true, geteuid());
  const int error = errno;
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode))
    return "is a symbolic link, which others may turn elsewhere; name the folder itself";
  return strerror(error);
}

Cache::Cache() : path(directoryPath()) {
  const char *defect = path.empty() ? nullptr : openFolder(path, directory);
  if (!defect)
    return;
  directory.reset(-1);
  warnOnce(Warning::CacheDirectory, "cache directory %s: %s; compiled bundles are kept in memory only", path.c_str(),
           defect);
}

bool Cache::find(const std::string &key, std::vector<char> &bundle) const {
  if (!directory)
    return false;
  std::string name = entryName(key);
  Descriptor file(openat(directory.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file && errno == ENOENT)
    return false;
  const char *defect = !file ? strerror(errno) : trustDefect(file.get(), false, geteuid());
  if (!defect && !readAll(file.get(), mostEntryBytes, bundle))
    defect = strerror(errno);
  if (!defect && !unpackEntry(key, bundle))
    defect = "is damaged";
  if (defect) {
    warnOnce(Warning::CacheEntry, "cache entry %s/%s: %s; compiling again", path.c_str(), name.c_str(), defect);
    bundle.clear();
    return false;
  }
  futimens(file.get(), nullptr); // the time of last use, for pruning
  return true;
}

bool Cache::temporaryFile(const char *bytes, size_t size, Descriptor &out) const {
  if (!directory)
    return false;
  const std::string name = temporaryName();
  Descriptor written(openat(directory.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!written)
    return false;
  // A file that is open for writing is not loaded everywhere.
  out.reset(openat(directory.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  unlinkat(directory.get(), name.c_str(), 0);
  struct stat made, opened;
  bool same = out && fstat(written.get(), &made) == 0 && fstat(out.get(), &opened) == 0 &&
              made.st_dev == opened.st_dev && made.st_ino == opened.st_ino;
  return same && writeAll(written.get(), bytes, size);
}

void Cache::keep(const std::string &key, const std::vector<char> &bundle) const {
  if (!directory)
    return;
  std::vector<char> entry = packEntry(key, bundle);
  std::string temporary = temporaryName(), name = entryName(key);
  Descriptor file(
      openat(directory.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  bool written = file && writeAll(file.get(), entry.data(), entry.size()) && fsync(file.get()) == 0 &&
                 renameat(directory.get(), temporary.c_str(), directory.get(), name.c_str()) == 0;
  if (!written) {
    warnOnce(Warning::CacheWrite, "cache directory %s: %s; compiled bundles are kept in memory only", path.c_str(),
             strerror(errno));
    if (file)
      unlinkat(directory.get(), temporary.c_str(), 0);
    return;
  }
  prune();
}

// Removes the least recently used entries above the capacity, and temporary
// files of writers that died. Touches only names that this file makes.
void Cache::prune() const {
  int fd = openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::unique_ptr<DIR, int (*)(DIR *)> listing(fdopendir(fd), closedir);
  if (!listing)
    return;
  std::vector<CacheFile> entries;
  uint64_t total = 0;
  while (dirent *item = readdir(listing.get())) {
    const char *name = item->d_name;
    bool temporary = startsWith(name, temporaryPrefix);
    bool entry = strlen(name) == 64 + strlen(suffix) && strcmp(name + 64, suffix) == 0;
    struct stat info;
    if ((!temporary && !entry) || fstatat(directory.get(), name, &info, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    if (entry) {
      entries.push_back({name, uint64_t(info.st_size), info.st_mtim});
      total += uint64_t(info.st_size);
    } else if (info.st_mtim.tv_sec < time(nullptr) - staleSeconds) {
      unlinkat(directory.get(), name, 0);
    }
  }
  std::sort(entries.begin(), entries.end(), [](const CacheFile &a, const CacheFile &b) {
    return std::make_pair(a.used.tv_sec, a.used.tv_nsec) < std::make_pair(b.used.tv_sec, b.used.tv_nsec);
  });
  uint64_t limit = capacity();
  for (size_t i = 0; i < entries.size() && total > limit; ++i) {
    unlinkat(directory.get(), entries[i].name.c_str(), 0);
    total -= entries[i].bytes;
  }
}

void altgrad::runtime::addPart(std::string &key, const char *name, const std::string &part) {
  key += std::string(name) + " " + std::to_string(part.size()) + "\n" + part + "\n";
}
