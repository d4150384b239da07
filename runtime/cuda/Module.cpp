// Loads a bundle's GPU code: the driver compiles PTX in a tenth of a second and
// more, and loads a cubin in a few milliseconds.
#include "cuda/Module.h"
#include "Status.h"
#include "files/Cache.h"
#include "files/Sha256.h"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>

using namespace altgrad::runtime;

namespace {

struct Log {
  char text[4096] = "";
  int options[2] = {jitErrorLog, jitErrorLogBytes};
  void *values[2] = {text, (void *)(sizeof text)};
};

class Loader {
public:
  Loader(const Driver &driver, const Bundle &bundle, Device device) : driver(driver), bundle(bundle), device(device) {}

  altgrad_status load(Module &out);
  altgrad_status chooseTarget();
  std::string identity() const;

private:
  bool takeCubin(const char *bytes, Module &out) const;
  bool link(std::vector<char> &cubin) const;
  altgrad_status loadPtx(Module &out) const;

  const Driver &driver;
  const Bundle &bundle;
  Device device;
  int major = 0, minor = 0;
  std::string target;
  bool exact = false; // the target is the device's own
  const char *ptx = nullptr;
  size_t ptxBytes = 0;
};

// The greatest target up to the device's capability; sm_90a is for 9.0 alone.
altgrad_status Loader::chooseTarget() {
  Result error = driver.cuDeviceGetAttribute(&major, attributeMajor, device);
  if (!error)
    error = driver.cuDeviceGetAttribute(&minor, attributeMinor, device);
  if (error)
    return driver.refuse(error, "the capability of the CUDA device");
  int capability = major * 10 + minor, best = -1;
  std::string all;
  for (const std::string &name : bundle.manifest().ptx) {
    all += (all.empty() ? "" : ", ") + name;
    char *end = nullptr;
    bool named = name.compare(0, 3, "sm_") == 0;
    int number = named ? int(strtol(name.c_str() + 3, &end, 10)) : 0;
    bool alone = named && *end == 'a';
    if (number <= 0 || (alone ? number != capability : number > capability))
      continue;
    if (number * 2 + alone > best) {
      best = number * 2 + alone;
      target = name;
      exact = number == capability;
    }
  }
  if (best < 0)
    return fail(ALTGRAD_UNAVAILABLE, "%s has no PTX for a device of capability %d.%d (it has: %s)",
                bundle.name().c_str(), major, minor, all.empty() ? "none" : all.c_str());
  ptx = bundle.data("altgrad_ptx_" + target, ptxBytes);
  if (!ptx)
    return fail(ALTGRAD_BROKEN, "%s has no altgrad_ptx_%s", bundle.name().c_str(), target.c_str());
  return ALTGRAD_OK;
}

// libcuda.so.550.54.14 is what libcuda.so.1 leads to; the driver's own number
// is the same for all of one CUDA version.
std::string driverFile(const Driver &driver) {
  Dl_info library;
  if (!dladdr((void *)driver.cuInit, &library) || !library.dli_fname)
    return "";
  std::unique_ptr<char, void (*)(void *)> path(realpath(library.dli_fname, nullptr), free);
  std::string name = path ? path.get() : library.dli_fname;
  return name.substr(name.rfind('/') + 1);
}

// Everything that the driver's compiler answers by. "" where it does not say.
std::string Loader::identity() const {
  char name[256] = "";
  int version = 0;
  if (driver.cuDeviceGetName(name, sizeof name - 1, device) || driver.cuDriverGetVersion(&version))
    return "";
  Sha256 hash;
  hash.update(ptx, ptxBytes);
  std::string key;
  addPart(key, "ptx", hexadecimal(hash.finish()));
  addPart(key, "driver", std::to_string(version) + " " + driverFile(driver));
  addPart(key, "device", name);
  addPart(key, "capability", std::to_string(major) + "." + std::to_string(minor));
  return key;
}

// Whether these bytes load and hold every kernel of the bundle.
bool Loader::takeCubin(const char *bytes, Module &out) const {
  if (driver.cuModuleLoadDataEx(&out, bytes, 0, nullptr, nullptr) != 0) {
    out = nullptr;
    return false;
  }
  Function kernel;
  for (const Phase &phase : bundle.manifest().phases)
    if (phase.kind != ALTGRAD_MATRIX && driver.cuModuleGetFunction(&kernel, out, phase.symbol.c_str()) != 0) {
      driver.cuModuleUnload(out);
      out = nullptr;
      return false;
    }
  return true;
}

// The driver's cubin of the PTX; false if it makes none. Why is said by
// loadPtx.
bool Loader::link(std::vector<char> &cubin) const {
  Log log;
  LinkState state = nullptr;
  if (driver.cuLinkCreate(2, log.options, log.values, &state) != 0)
    return false;
  void *bytes = nullptr;
  size_t size = 0;
  bool linked = driver.cuLinkAddData(state, jitInputPtx, const_cast<char *>(ptx), ptxBytes + 1, bundle.name().c_str(),
                                     0, nullptr, nullptr) == 0 &&
                driver.cuLinkComplete(state, &bytes, &size) == 0;
  if (linked)
    cubin.assign(static_cast<char *>(bytes), static_cast<char *>(bytes) + size);
  driver.cuLinkDestroy(state);
  return linked;
}

altgrad_status Loader::loadPtx(Module &out) const {
  Log log;
  Result error = driver.cuModuleLoadDataEx(&out, ptx, 2, log.options, log.values);
  if (error == 0)
    return ALTGRAD_OK;
  out = nullptr;
  int version = 0;
  driver.cuDriverGetVersion(&version);
  const char *hint = error == errorPtxVersion      ? ": the driver is too old for "
                                                     "this PTX"
                     : error == errorNoBinary      ? ": no code for this GPU"
                     : error == errorInvalidPtx    ? ": the driver refuses the PTX"
                     : error == errorNoJitCompiler ? ": the driver has no compiler for PTX"
                                                   : "";
  altgrad_status status = driver.refuse(error, "loading PTX");
  std::string words = altgrad_last_error();
  log.text[sizeof log.text - 1] = 0;
  return fail(status, "%s%s (%s for %s, driver for CUDA %d.%d)%s%s", words.c_str(), hint, bundle.name().c_str(),
              target.c_str(), version / 1000, version % 1000 / 10, *log.text ? "\n" : "", log.text);
}

altgrad_status Loader::load(Module &out) {
  if (altgrad_status status = chooseTarget())
    return status;
  size_t size = 0;
  const char *own = exact ? bundle.bytes("altgrad_cubin_" + target, size) : nullptr;
  if (own && takeCubin(own, out))
    return ALTGRAD_OK;
  const std::string known = identity(), key = "altgrad cubin 1\n" + known;
  std::vector<char> cubin;
  Cache cache;
  if (!known.empty() && cache.find(key, cubin) && takeCubin(cubin.data(), out))
    return ALTGRAD_OK;
  if (!link(cubin) || !takeCubin(cubin.data(), out))
    return loadPtx(out);
  if (!known.empty())
    cache.keep(key, cubin);
  return ALTGRAD_OK;
}

} // namespace

altgrad_status altgrad::runtime::loadModule(const Driver &driver, const Bundle &bundle, Device device, Module &out) {
  return Loader(driver, bundle, device).load(out);
}

std::string altgrad::runtime::identityOf(const Driver &driver, const Bundle &bundle, Device device) {
  Loader loader(driver, bundle, device);
  return loader.chooseTarget() == ALTGRAD_OK ? loader.identity() : "";
}
