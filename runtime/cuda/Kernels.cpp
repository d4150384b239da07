// Loads a bundle's kernels.
#include "cuda/Kernels.h"
#include "Status.h"
#include "altgrad/products.h"
#include "altgrad/values.h"
#include "cuda/Module.h"

#include <algorithm>

using namespace altgrad::runtime;

namespace {

// Blocks walk their domain with a grid-sized stride. Where a block does several
// items at a time, a grid needs no more of them than the device can hold; fewer
// than 4 a processor would starve it while the last ones end. A block for an item
// is scheduled by the hardware, up to the largest grid there is.
constexpr int fewestBlocks = 4, mostBlocks = 8;
constexpr int64_t largestGrid = INT32_MAX;

altgrad_status loadPhase(const Bundle &bundle, const Phase &phase, Kernels &kernels) {
  const Driver &driver = kernels.gpu->driver;
  Kernels::Entry entry{nullptr, &phase, 0, 0};
  if (phase.kind == ALTGRAD_MATRIX) {
    kernels.phases.push_back(entry);
    return ALTGRAD_OK;
  }
  if (Result error = driver.cuModuleGetFunction(&entry.kernel, kernels.module, phase.symbol.c_str())) {
    driver.refuse(error, phase.symbol.c_str());
    std::string words = altgrad_last_error();
    return fail(ALTGRAD_BROKEN, "%s: kernel %s", bundle.name().c_str(), words.c_str());
  }
  if (phase.tiles == ALTGRAD_TILE_COLUMNS) {
    entry.dynamicShared = ALTGRAD_SQUARE_BYTES;
    if (Result error = driver.cuFuncSetAttribute(entry.kernel, functionDynamicShared, ALTGRAD_SQUARE_BYTES))
      return driver.refuse(error, (phase.symbol + ": 64 KB of shared memory").c_str());
  }
  int processors = 0, blocks = 0;
  Result error = driver.cuDeviceGetAttribute(&processors, attributeProcessors, kernels.gpu->device);
  if (!error)
    error = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry.kernel, ALTGRAD_BLOCK_THREADS,
                                                               entry.dynamicShared);
  if (error)
    return driver.refuse(error, phase.symbol.c_str());
  entry.mostBlocks =
      phase.perBlock == 1 ? largestGrid : int64_t(processors) * std::clamp(blocks, fewestBlocks, mostBlocks);
  kernels.phases.push_back(entry);
  return ALTGRAD_OK;
}

// Where a device has too little shared memory, there are none.
void findSymmetric(const Bundle &bundle, Kernels &kernels) {
  const std::vector<Phase> &phases = bundle.manifest().phases;
  if (std::none_of(phases.begin(), phases.end(), [](const Phase &phase) { return phase.kind == ALTGRAD_MATRIX; }))
    return;
  const Driver &driver = kernels.gpu->driver;
  for (int type : {ALTGRAD_GEMM_BF16, ALTGRAD_GEMM_F16})
    for (int columns : {0, 1}) {
      std::string name = ALTGRAD_SYMMETRIC_KERNEL;
      name += std::string(columns ? "columns_" : "") + (type == ALTGRAD_GEMM_BF16 ? "bf16" : "f16");
      Function &kernel = kernels.symmetric[type][columns];
      if (driver.cuModuleGetFunction(&kernel, kernels.module, name.c_str()) != 0 ||
          driver.cuFuncSetAttribute(kernel, functionDynamicShared, ALTGRAD_SYMMETRIC_SHARED) != 0)
        kernel = nullptr;
    }
  kernels.identity = identityOf(driver, bundle, kernels.gpu->device);
}

// The code itself says whether it waits: of what a bundle has, a device takes
// what it can, and older bundles have code that does not.
bool mayOverlap(const Driver &driver, Module module) {
  DevicePointer mark = 0;
  size_t bytes = 0;
  return driver.cuLaunchKernelEx && driver.cuModuleGetGlobal(&mark, &bytes, module, ALTGRAD_KERNELS_WAIT) == 0;
}

altgrad_status load(const Bundle &bundle, Kernels &kernels) {
  Gpu &gpu = *kernels.gpu;
  Entered entered(gpu.driver, gpu.context);
  if (entered.error)
    return gpu.driver.refuse(entered.error, "entering the CUDA context");
  if (altgrad_status status = loadModule(gpu.driver, bundle, gpu.device, kernels.module))
    return status;
  kernels.rowWords = bundle.manifest().rowWords;
  for (const Phase &phase : bundle.manifest().phases)
    if (altgrad_status status = loadPhase(bundle, phase, kernels))
      return status;
  findSymmetric(bundle, kernels);
  kernels.mayOverlap = mayOverlap(gpu.driver, kernels.module);
  if (gpu.driver.cuModuleGetFunction(&kernels.values, kernels.module, ALTGRAD_VALUES_KERNEL) != 0)
    kernels.values = nullptr; // of a bundle of before
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

altgrad_status altgrad::runtime::findKernels(std::shared_ptr<Gpu> gpu, const Bundle &bundle,
                                             std::shared_ptr<const Kernels> &out) {
  return bundle.attached(gpu.get(), [&](std::shared_ptr<const void> &slot) {
    if (!slot) {
      auto kernels = std::make_shared<Kernels>();
      kernels->gpu = gpu;
      if (altgrad_status status = load(bundle, *kernels))
        return status;
      slot = kernels;
    }
    out = std::static_pointer_cast<const Kernels>(slot);
    return altgrad_status(ALTGRAD_OK);
  });
}
