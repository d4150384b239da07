// Loads a bundle's kernels.
#include "cuda/Kernels.h"
#include "Status.h"

#include <algorithm>
#include <cstdlib>

using namespace altgrad::runtime;

namespace {

// Blocks walk their domain with a grid-sized stride, so a grid needs no more of
// them than the device can hold; fewer than 4 a processor would starve it while
// the last ones end.
constexpr int fewestBlocks = 4, mostBlocks = 8;

// Loads the kernels of a bundle.
class Loader {
public:
  Loader(Gpu &gpu, const Bundle &bundle, Kernels &kernels)
      : gpu(gpu), driver(gpu.driver), device(gpu.device), bundle(bundle),
        kernels(kernels) {}
  altgrad_status load();

private:
  altgrad_status choosePtx(const Bundle &bundle, std::string &target) const;
  altgrad_status loadModule(const Bundle &bundle, const std::string &target);
  altgrad_status loadPhase(const Bundle &bundle, const Phase &phase);

  Gpu &gpu;
  const Driver &driver;
  Device device;
  const Bundle &bundle;
  Kernels &kernels;
};

// The greatest target up to the device's capability; sm_90a is for 9.0 alone.
altgrad_status Loader::choosePtx(const Bundle &bundle,
                                 std::string &target) const {
  int major = 0, minor = 0;
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
    bool exact = named && *end == 'a';
    if (number <= 0 || (exact ? number != capability : number > capability))
      continue;
    if (number * 2 + exact > best) {
      best = number * 2 + exact;
      target = name;
    }
  }
  if (best < 0)
    return fail(ALTGRAD_UNAVAILABLE,
                "%s has no PTX for a device of capability %d.%d (it has: %s)",
                bundle.name().c_str(), major, minor,
                all.empty() ? "none" : all.c_str());
  return ALTGRAD_OK;
}

altgrad_status Loader::loadModule(const Bundle &bundle,
                                  const std::string &target) {
  size_t length = 0;
  const char *ptx = bundle.data("altgrad_ptx_" + target, length);
  if (!ptx)
    return fail(ALTGRAD_BROKEN, "%s has no altgrad_ptx_%s",
                bundle.name().c_str(), target.c_str());
  char log[4096] = "";
  int options[] = {jitErrorLog, jitErrorLogBytes};
  void *values[] = {log, (void *)(sizeof log)};
  Result error =
      driver.cuModuleLoadDataEx(&kernels.module, ptx, 2, options, values);
  if (error == 0)
    return ALTGRAD_OK;
  kernels.module = nullptr;
  int version = 0;
  driver.cuDriverGetVersion(&version);
  const char *hint = error == errorPtxVersion   ? ": the driver is too old for "
                                                  "this PTX"
                     : error == errorNoBinary   ? ": no code for this GPU"
                     : error == errorInvalidPtx ? ": the driver refuses the PTX"
                     : error == errorNoJitCompiler
                         ? ": the driver has no compiler for PTX"
                         : "";
  altgrad_status status = driver.refuse(error, "loading PTX");
  std::string words = altgrad_last_error();
  log[sizeof log - 1] = 0;
  return fail(status, "%s%s (%s for %s, driver for CUDA %d.%d)%s%s",
              words.c_str(), hint, bundle.name().c_str(), target.c_str(),
              version / 1000, version % 1000 / 10, *log ? "\n" : "", log);
}

altgrad_status Loader::loadPhase(const Bundle &bundle, const Phase &phase) {
  Kernels::Entry entry{nullptr, &phase, 0};
  if (Result error = driver.cuModuleGetFunction(&entry.kernel, kernels.module,
                                                phase.symbol.c_str())) {
    driver.refuse(error, phase.symbol.c_str());
    std::string words = altgrad_last_error();
    return fail(ALTGRAD_BROKEN, "%s: kernel %s", bundle.name().c_str(),
                words.c_str());
  }
  int processors = 0, blocks = 0;
  Result error =
      driver.cuDeviceGetAttribute(&processors, attributeProcessors, device);
  if (!error)
    error = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        &blocks, entry.kernel, ALTGRAD_BLOCK_THREADS, 0);
  if (error)
    return driver.refuse(error, phase.symbol.c_str());
  entry.mostBlocks =
      int64_t(processors) * std::clamp(blocks, fewestBlocks, mostBlocks);
  kernels.phases.push_back(entry);
  return ALTGRAD_OK;
}

altgrad_status Loader::load() {
  Entered entered(driver, gpu.context);
  if (entered.error)
    return driver.refuse(entered.error, "entering the CUDA context");
  std::string target;
  if (altgrad_status status = choosePtx(bundle, target))
    return status;
  if (altgrad_status status = loadModule(bundle, target))
    return status;
  for (const Phase &phase : bundle.manifest().phases)
    if (altgrad_status status = loadPhase(bundle, phase))
      return status;
  return ALTGRAD_OK;
}

} // namespace

Kernels::~Kernels() {
  if (driverIsParents() || !module)
    return;
  Entered entered(gpu->driver, gpu->context);
  RelaxedCapture relaxed(gpu->driver);
  if (entered.error == 0)
    gpu->driver.cuModuleUnload(module);
}

altgrad_status
altgrad::runtime::findKernels(std::shared_ptr<Gpu> gpu, const Bundle &bundle,
                              std::shared_ptr<const Kernels> &out) {
  return bundle.attached(gpu.get(), [&](std::shared_ptr<const void> &slot) {
    if (!slot) {
      auto kernels = std::make_shared<Kernels>();
      kernels->gpu = gpu;
      if (altgrad_status status = Loader(*gpu, bundle, *kernels).load())
        return status;
      slot = kernels;
    }
    out = std::static_pointer_cast<const Kernels>(slot);
    return altgrad_status(ALTGRAD_OK);
  });
}
