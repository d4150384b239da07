// Opens a bundle from memory: no path on disk is ever mapped, so nobody can
// change or truncate code that runs.
#include "bundle/Bundle.h"
#include "Status.h"
#include "files/Cache.h"
#include "files/Sha256.h"

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace altgrad::runtime;

namespace {

constexpr size_t mostBundleBytes = size_t(1) << 30;

// Why these bytes are not what the compiler has written; null if they are. The loader believes what a file says of
// itself, so it gets none that is not whole.
const char *defectOf(const char *bytes, size_t size) {
  constexpr size_t endBytes = sizeof ALTGRAD_BUNDLE_END - 1;
  Sha256::Digest digest;
  if (size < endBytes + digest.size() ||
      memcmp(bytes + size - digest.size() - endBytes, ALTGRAD_BUNDLE_END, endBytes) != 0)
    return "does not end in a digest: it is damaged, no bundle, or one of an older altgrad-opt; compile it again";
  const size_t before = size - digest.size();
  memcpy(digest.data(), bytes + before, digest.size());
  Sha256 hash;
  hash.update(bytes, before);
  return hash.finish() == digest ? nullptr
                                 : "is damaged: it has another digest than when it was compiled; compile it again";
}

// Measured on AdamW in memory: 1 KiB ahead gains 5 to 20 % on an Intel Xeon with
// AVX-512 and on a Zen 3; on a Zen 4, which libgcc 12 takes for a Zen 3, 512 bytes
// are 3 to 8 % better than that, and none at all is up to 15 % worse.
int64_t prefetchDistance() {
  __builtin_cpu_init();
  if (__builtin_cpu_is("amd") && __builtin_cpu_supports("avx512f"))
    return 512;
  return __builtin_cpu_is("intel") || __builtin_cpu_is("znver3") ? 1024 : 0;
}

int executableMemory() {
  constexpr unsigned executable = 0x10; // MFD_EXEC, since Linux 6.3
  int fd = memfd_create("altgrad", MFD_CLOEXEC | executable);
  if (fd < 0 && errno == EINVAL)
    fd = memfd_create("altgrad", MFD_CLOEXEC);
  return fd;
}

// The loader knows libraries by the text of their path, and keeps some that it
// has refused: a bundle at the path of a closed descriptor would get another
// one's code. So no path comes twice in a process; its dots and slashes say which
// copy of this library loads, and count its loads.
std::string uniquePath(int descriptor) {
  static std::atomic<uint64_t> loads{0};
  const uint64_t copy = reinterpret_cast<uint64_t>(&loads), load = ++loads;
  std::string path = "/proc/self/fd/";
  for (int bit = 0; bit < 128; ++bit)
    path += (bit < 64 ? copy >> bit : load >> (bit - 64)) & 1 ? ".//" : "./";
  return path + std::to_string(descriptor);
}

} // namespace

altgrad_status Bundle::open(const char *bytes, size_t size, const std::string &name,
                            std::shared_ptr<const Bundle> &out) {
  auto bundle = std::make_shared<Bundle>();
  bundle->label = name;
  if (const char *defect = defectOf(bytes, size))
    return fail(ALTGRAD_BROKEN, "%s %s", name.c_str(), defect);
  if (altgrad_status status = bundle->map(bytes, size))
    return status;
  if (altgrad_status status = bundle->readManifest())
    return status;
  out = std::move(bundle);
  return ALTGRAD_OK;
}

// Neither the descriptor nor the file is needed once the code is mapped.
altgrad_status Bundle::map(const char *bytes, size_t size) {
  const Descriptor memory(executableMemory());
  if (memory && writeAll(memory.get(), bytes, size)) {
    library = dlopen(uniquePath(memory.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      return fail(ALTGRAD_BROKEN, "%s does not load: %s", label.c_str(), dlerror());
  } else if (altgrad_status status = mapFile(bytes, size, strerror(errno))) {
    return status;
  }
  if (auto *ahead = static_cast<int64_t *>(dlsym(library, "altgrad_prefetch")))
    *ahead = prefetchDistance();
  return ALTGRAD_OK;
}

// Where the system refuses memory that code may be loaded from.
altgrad_status Bundle::mapFile(const char *bytes, size_t size, const char *refused) {
  const Cache cache;
  Descriptor file;
  if (!cache.temporaryFile(bytes, size, file))
    return fail(ALTGRAD_SYSTEM, "cannot keep %s in memory: %s; nor in a file: %s", label.c_str(), refused,
                cache ? strerror(errno) : "no cache directory");
  library = dlopen(uniquePath(file.get()).c_str(), RTLD_NOW | RTLD_LOCAL);
  return library ? ALTGRAD_OK : fail(ALTGRAD_BROKEN, "%s does not load: %s", label.c_str(), dlerror());
}

altgrad_status Bundle::readManifest() {
  size_t length = 0;
  text = data("altgrad_manifest", length);
  if (!text)
    return fail(ALTGRAD_BROKEN, "%s has no altgrad_manifest", label.c_str());
  try {
    parsed = parseManifest({text, length});
  } catch (const std::bad_alloc &) {
    throw;
  } catch (const std::exception &error) {
    return fail(ALTGRAD_BROKEN, "%s: %s", label.c_str(), error.what());
  }
  return ALTGRAD_OK;
}

Bundle::~Bundle() {
  if (library)
    dlclose(library);
}

void *Bundle::function(const std::string &symbol) const { return dlsym(library, symbol.c_str()); }

const char *Bundle::bytes(const std::string &symbol, size_t &size) const {
  auto *address = static_cast<const char *>(dlsym(library, symbol.c_str()));
  Dl_info info;
  const ElfW(Sym) *entry = nullptr;
  if (!address || !dladdr1(address, &info, (void **)(&entry), RTLD_DL_SYMENT) || !entry)
    return nullptr;
  size = entry->st_size;
  return address;
}

const char *Bundle::data(const std::string &symbol, size_t &length) const {
  size_t size = 0;
  const char *text = bytes(symbol, size);
  length = text ? strnlen(text, size) : 0;
  return length < size ? text : nullptr;
}

altgrad_status altgrad_load(const char *path, altgrad_bundle **out) {
  if (!path || !out)
    return fail(ALTGRAD_INVALID, "altgrad_load: %s is NULL", path ? "out" : "path");
  return guarded([&]() -> altgrad_status {
    std::vector<char> bytes;
    if (altgrad_status status = readFile(path, mostBundleBytes, bytes))
      return status;
    auto handle = std::make_unique<altgrad_bundle>();
    if (altgrad_status status = Bundle::open(bytes.data(), bytes.size(), path, handle->shared))
      return status;
    *out = handle.release();
    return ALTGRAD_OK;
  });
}

const char *altgrad_manifest(const altgrad_bundle *bundle) { return bundle ? bundle->shared->manifestText() : ""; }

void altgrad_bundle_free(altgrad_bundle *bundle) { delete bundle; }
