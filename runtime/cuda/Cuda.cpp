// Runs a bundle's PTX on a CUDA device.
#include "cuda/CudaTables.h"
#include "Status.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace altgrad::runtime;

namespace {

// Blocks walk their domain with a grid-sized stride. Where a block does several
// items at a time, a grid needs no more of them than the device can hold; fewer
// than 4 a processor would starve it while the last ones end. A block for an item
// is scheduled by the hardware, up to the largest grid there is.
constexpr int fewestBlocks = 4, mostBlocks = 8;
constexpr int64_t largestGrid = INT32_MAX;
// With more rows than these a block takes longer for the phases between two
// sweeps than their launches do.
constexpr int64_t mostRowsOfLastBlock = 4096;

class CudaExecutor final : public Executor {
public:
  explicit CudaExecutor(const Driver &driver)
      : driver(driver), memory(driver) {}
  ~CudaExecutor() override;

  altgrad_status enterDevice(int ordinal);
  altgrad_status load(const Bundle &bundle);
  altgrad_status prepare(const Tables &tables) override;
  altgrad_status run(const Tables &tables, const Launch &launch,
                     unsigned &changed) override;

private:
  struct Entry {
    Function kernel;
    const Phase *phase;
    int64_t mostBlocks;
  };

  altgrad_status chooseDevice(int ordinal);
  altgrad_status choosePtx(const Bundle &bundle, std::string &target) const;
  altgrad_status loadModule(const Bundle &bundle, const std::string &target);
  altgrad_status loadPhase(const Bundle &bundle, const Phase &phase);
  altgrad_status order(const Tables &tables, CudaStream stream,
                       unsigned &changed, bool &capturing);
  int64_t finishedBy(int64_t phase, int64_t last, const Tables &tables) const;
  altgrad_status launchPhase(const Entry &entry, Items items,
                             altgrad_args &args, CudaStream stream);
  altgrad_status checkUsable() const;

  const Driver &driver;
  CudaTables memory;
  Device device = 0;
  Context context = nullptr;
  bool retained = false, used = false;
  Module module = nullptr;
  Event last = nullptr; // after everything this plan has given to a stream
  std::vector<Entry> phases;
};

CudaExecutor::~CudaExecutor() {
  if (driverIsParents())
    return;
  {
    Entered entered(driver, context);
    if (context && entered.error == 0) {
      memory.release();
      if (last)
        driver.cuEventDestroy(last);
      if (module)
        driver.cuModuleUnload(module);
    }
  }
  if (retained)
    driver.cuDevicePrimaryCtxRelease(device);
}

altgrad_status CudaExecutor::checkUsable() const {
  if (driverIsParents())
    return fail(ALTGRAD_UNAVAILABLE,
                "this CUDA plan belongs to the process that was forked");
  return ALTGRAD_OK;
}

// The current context when it is of the wanted device (whatever device it is,
// when `ordinal` < 0), else the primary context, which is torch's.
altgrad_status CudaExecutor::enterDevice(int ordinal) {
  Context current = nullptr;
  Result error = driver.cuCtxGetCurrent(&current);
  Device currentDevice = -1;
  if (!error && current)
    error = driver.cuCtxGetDevice(&currentDevice);
  if (error)
    return driver.refuse(error, "the current CUDA context");
  if (!current || (ordinal >= 0 && currentDevice != ordinal))
    return chooseDevice(std::max(ordinal, 0));
  context = current;
  device = currentDevice;
  return ALTGRAD_OK;
}

altgrad_status CudaExecutor::chooseDevice(int ordinal) {
  int count = 0;
  if (Result error = driver.cuDeviceGetCount(&count))
    return driver.refuse(error, "counting the CUDA devices");
  if (ordinal >= count)
    return fail(ALTGRAD_UNAVAILABLE, "cuda:%d of %d CUDA devices", ordinal,
                count);
  if (Result error = driver.cuDeviceGet(&device, ordinal))
    return driver.refuse(error, "cuDeviceGet");
  if (Result error = driver.cuDevicePrimaryCtxRetain(&context, device))
    return driver.refuse(error, "the primary context of the CUDA device");
  retained = true;
  return ALTGRAD_OK;
}

// The greatest target up to the device's capability; sm_90a is for 9.0 alone.
altgrad_status CudaExecutor::choosePtx(const Bundle &bundle,
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

altgrad_status CudaExecutor::loadModule(const Bundle &bundle,
                                        const std::string &target) {
  size_t length = 0;
  const char *ptx = bundle.data("altgrad_ptx_" + target, length);
  if (!ptx)
    return fail(ALTGRAD_BROKEN, "%s has no altgrad_ptx_%s",
                bundle.name().c_str(), target.c_str());
  char log[4096] = "";
  int options[] = {jitErrorLog, jitErrorLogBytes};
  void *values[] = {log, (void *)(sizeof log)};
  Result error = driver.cuModuleLoadDataEx(&module, ptx, 2, options, values);
  if (error == 0)
    return ALTGRAD_OK;
  module = nullptr;
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

altgrad_status CudaExecutor::loadPhase(const Bundle &bundle,
                                       const Phase &phase) {
  Entry entry{nullptr, &phase, 0};
  if (Result error = driver.cuModuleGetFunction(&entry.kernel, module,
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
      phase.perBlock == 1
          ? largestGrid
          : int64_t(processors) * std::clamp(blocks, fewestBlocks, mostBlocks);
  phases.push_back(entry);
  return ALTGRAD_OK;
}

altgrad_status CudaExecutor::load(const Bundle &bundle) {
  Entered entered(driver, context);
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
  if (Result error = driver.cuEventCreate(&last, eventWithoutTiming))
    return driver.refuse(error, "cuEventCreate");
  return ALTGRAD_OK;
}

altgrad_status CudaExecutor::prepare(const Tables &tables) {
  if (altgrad_status status = checkUsable())
    return status;
  Entered entered(driver, context);
  if (entered.error)
    return driver.refuse(entered.error, "entering the CUDA context");
  return memory.reserve(tables);
}

// Brings the tables up to date before kernels may read them. Whatever streams
// the runs of one plan are given, they follow each other; under capture nothing
// is ordered or uploaded, because the graph runs later.
altgrad_status CudaExecutor::order(const Tables &tables, CudaStream stream,
                                   unsigned &changed, bool &capturing) {
  int capture = 0;
  if (Result error = driver.cuStreamIsCapturing(stream, &capture))
    return driver.refuse(error, "asking whether the stream is captured");
  capturing = capture != 0;
  if (capturing && changed)
    return fail(ALTGRAD_INVALID,
                "tensors or pointers have changed since the last run, and tables "
                "are not uploaded while a stream is captured: run once before "
                "the capture with the pointers that it will use");
  if (used && !capturing)
    if (Result error = driver.cuStreamWaitEvent(stream, last, 0))
      return driver.refuse(error, "ordering after the last run");
  return changed ? memory.upload(tables, stream, changed) : ALTGRAD_OK;
}

// How many of the phases after this one its last block does: all it can, or none.
int64_t CudaExecutor::finishedBy(int64_t phase, int64_t last,
                                 const Tables &tables) const {
  int64_t finishes = phases[size_t(phase)].phase->finishes;
  bool fits = phase + finishes < last && tables.nrows <= mostRowsOfLastBlock;
  return fits ? finishes : 0;
}

altgrad_status CudaExecutor::launchPhase(const Entry &entry, Items items,
                                         altgrad_args &args,
                                         CudaStream stream) {
  if (items.begin >= items.end && !args.finished)
    return ALTGRAD_OK;
  int64_t perBlock = entry.phase->perBlock;
  int64_t blocks = (items.end - items.begin + perBlock - 1) / perBlock;
  blocks = std::clamp<int64_t>(blocks, 1, entry.mostBlocks);
#define ALTGRAD_POINTER(type, name, Name) &args.name,
#define ALTGRAD_COUNT(name, Name) &args.name,
  void *parameters[] = {ALTGRAD_ARGS(ALTGRAD_POINTER, ALTGRAD_COUNT)
                            &items.begin, &items.end};
#undef ALTGRAD_POINTER
#undef ALTGRAD_COUNT
  Result error = driver.cuLaunchKernel(
      entry.kernel, unsigned(blocks), 1, 1, ALTGRAD_BLOCK_THREADS, 1, 1, 0,
      stream, parameters, nullptr);
  return error ? driver.refuse(error, entry.phase->symbol.c_str()) : ALTGRAD_OK;
}

altgrad_status CudaExecutor::run(const Tables &tables, const Launch &launch,
                                 unsigned &changed) {
  if (altgrad_status status = checkUsable())
    return status;
  Entered entered(driver, context);
  if (entered.error)
    return driver.refuse(entered.error, "entering the CUDA context");
  auto stream = static_cast<CudaStream>(launch.stream);
  bool capturing = false;
  if (altgrad_status status = order(tables, stream, changed, capturing))
    return status;
  altgrad_args args = launch.args;
  args.rows = (const uint64_t *)memory.address(RowTable);
  args.inputs = (const uint64_t *)memory.address(InputTable);
  args.chunks = (const altgrad_chunk *)memory.address(ChunkTable);
  args.groups = (const uint64_t *)memory.address(GroupTable);
  args.scalars = (const uint64_t *)memory.address(ScalarTable);
  args.sets = (const int64_t *)memory.address(SetTable);
  altgrad_status status = ALTGRAD_OK;
  for (int64_t i = launch.first; !status && i < launch.last; ++i) {
    const Entry &entry = phases[size_t(i)];
    int64_t others = finishedBy(i, launch.last, tables);
    args.finished =
        others ? (uint32_t *)memory.address(FinishedTable) : nullptr;
    i += others;
    status = launchPhase(entry, itemsOf(*entry.phase, tables), args, stream);
  }
  // Also after a failure: the kernels before it may still run.
  if (!capturing && driver.cuEventRecord(last, stream) == 0)
    used = true;
  return status;
}

} // namespace

altgrad_status altgrad::runtime::createCudaExecutor(const Bundle &bundle, int ordinal,
                                           std::unique_ptr<Executor> &out) {
  const Driver *driver = nullptr;
  if (altgrad_status status = openDriver(driver))
    return status;
  auto executor = std::make_unique<CudaExecutor>(*driver);
  if (altgrad_status status = executor->enterDevice(ordinal))
    return status;
  if (altgrad_status status = executor->load(bundle))
    return status;
  out = std::move(executor);
  return ALTGRAD_OK;
}
