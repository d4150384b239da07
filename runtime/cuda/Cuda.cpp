// Runs a bundle's PTX on a CUDA device.
#include "Status.h"
#include "cuda/CudaTables.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace altgrad::runtime;

namespace {

// Blocks walk their domain with a grid-sized stride, so a grid needs no more of
// them than the device can hold; fewer than 4 a processor would starve it while
// the last ones end.
constexpr int fewestBlocks = 4, mostBlocks = 8;

// The kernels of a bundle in one context; every plan of the bundle uses them.
struct Kernels {
  struct Entry {
    Function kernel;
    const Phase *phase;
    int64_t mostBlocks;
  };
  ~Kernels();

  std::shared_ptr<Gpu> gpu;
  Module module = nullptr;
  std::vector<Entry> phases;
};

Kernels::~Kernels() {
  if (driverIsParents() || !module)
    return;
  Entered entered(gpu->driver, gpu->context);
  RelaxedCapture relaxed(gpu->driver);
  if (entered.error == 0)
    gpu->driver.cuModuleUnload(module);
}

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

altgrad_status findKernels(std::shared_ptr<Gpu> gpu, const Bundle &bundle,
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

altgrad_status askCapture(const Driver &driver, CudaStream stream,
                          uint64_t &capture) {
  int capturing = 0;
  if (Result error = driver.cuStreamGetCaptureInfo(stream, &capturing, &capture,
                                                   nullptr, nullptr, nullptr))
    return driver.refuse(error, "asking whether the stream is captured");
  capture = capturing ? capture : 0;
  return ALTGRAD_OK;
}

class CudaExecutor final : public Executor {
public:
  CudaExecutor(std::shared_ptr<Gpu> gpu, std::shared_ptr<const Kernels> kernels)
      : gpu(std::move(gpu)), driver(this->gpu->driver),
        kernels(std::move(kernels)), memory(*this->gpu) {}
  ~CudaExecutor() override;

  altgrad_status open();
  altgrad_status prepare(const Tables &tables) override;
  altgrad_status run(const Tables &tables, const Launch &launch,
                     unsigned &changed) override;
  bool mirrors() const override { return true; }

private:
  // Tables that a captured graph reads whenever it is replayed.
  struct Captured {
    uint64_t capture;
    std::unique_ptr<CudaTables> tables;
    SharedEvent ready;
  };
  altgrad_status order(const Tables &tables, CudaStream stream,
                       unsigned &changed);
  altgrad_status orderCaptured(const Tables &tables, CudaStream stream,
                               uint64_t capture, const CudaTables *&out);
  altgrad_status launchAll(const Tables &tables, const Launch &launch,
                           const CudaTables &where, CudaStream stream);
  altgrad_status launchPhase(const Kernels::Entry &entry, Items items,
                             altgrad_args &args, CudaStream stream);
  altgrad_status checkUsable() const;

  std::shared_ptr<Gpu> gpu;
  const Driver &driver;
  std::shared_ptr<const Kernels> kernels;
  CudaTables memory;
  std::vector<Captured> captured;
  bool used = false;
  SharedEvent last; // after everything this plan has given to a stream
};

CudaExecutor::~CudaExecutor() {
  if (driverIsParents())
    return;
  Entered entered(driver, gpu->context);
  if (entered.error)
    return;
  RelaxedCapture relaxed(driver);
  memory.giveBack(used ? last : nullptr);
  for (Captured &graph : captured)
    graph.tables->giveBack(last);
  captured.clear();
  last.reset();
}

altgrad_status CudaExecutor::open() {
  Entered entered(driver, gpu->context);
  if (entered.error)
    return driver.refuse(entered.error, "entering the CUDA context");
  return gpu->makeEvent(last);
}

altgrad_status CudaExecutor::checkUsable() const {
  if (driverIsParents())
    return fail(ALTGRAD_UNAVAILABLE,
                "this CUDA plan belongs to the process that was forked");
  return ALTGRAD_OK;
}

altgrad_status CudaExecutor::prepare(const Tables &tables) {
  if (altgrad_status status = checkUsable())
    return status;
  Entered entered(driver, gpu->context);
  if (entered.error)
    return driver.refuse(entered.error, "entering the CUDA context");
  RelaxedCapture relaxed(driver);
  return memory.reserve(tables, used ? last : nullptr);
}

// Brings the tables up to date before kernels may read them. Whatever streams
// the runs of one plan are given, they follow each other.
altgrad_status CudaExecutor::order(const Tables &tables, CudaStream stream,
                                   unsigned &changed) {
  if (used)
    if (Result error = driver.cuStreamWaitEvent(stream, last.get(), 0))
      return driver.refuse(error, "ordering after the last run");
  return memory.upload(tables, stream, changed);
}

// A graph runs again and again, later and among other runs: it has tables of
// its own, which nobody changes, and which are sent before it ever runs, beside
// it. The events are nodes of the graph, so that replays and other runs follow
// each other, too.
altgrad_status CudaExecutor::orderCaptured(const Tables &tables,
                                           CudaStream stream, uint64_t capture,
                                           const CudaTables *&out) {
  RelaxedCapture relaxed(driver);
  if (!captured.empty() && captured.back().capture == capture &&
      captured.back().tables->hold(tables)) {
    out = captured.back().tables.get();
    return ALTGRAD_OK;
  }
  Captured graph{capture, std::make_unique<CudaTables>(*gpu), nullptr};
  if (altgrad_status status = gpu->makeEvent(graph.ready))
    return status;
  if (altgrad_status status = graph.tables->reserve(tables, nullptr))
    return status;
  CudaStream beside = nullptr;
  altgrad_status status = gpu->copyStream(beside);
  unsigned all = ~0u;
  if (!status)
    status = graph.tables->upload(tables, beside, all);
  const Event ready = graph.ready.get();
  Result error = status ? 0 : driver.cuEventRecord(ready, beside);
  if (!status && !error)
    error = driver.cuStreamWaitEvent(stream, ready, externalEvent);
  if (!status && !error)
    error = driver.cuStreamWaitEvent(stream, last.get(), externalEvent);
  if (error)
    status = driver.refuse(error, "tables for a captured graph");
  if (status) {
    graph.tables->giveBack(graph.ready);
    return status;
  }
  captured.push_back(std::move(graph));
  out = captured.back().tables.get();
  return ALTGRAD_OK;
}

altgrad_status CudaExecutor::launchPhase(const Kernels::Entry &entry,
                                         Items items, altgrad_args &args,
                                         CudaStream stream) {
  if (items.begin >= items.end)
    return ALTGRAD_OK;
  int64_t perBlock = entry.phase->perBlock;
  int64_t blocks = (items.end - items.begin + perBlock - 1) / perBlock;
#define ALTGRAD_POINTER(type, name, Name) &args.name,
#define ALTGRAD_COUNT(name, Name) &args.name,
  void *parameters[] = {
      ALTGRAD_ARGS(ALTGRAD_POINTER, ALTGRAD_COUNT) & items.begin, &items.end};
#undef ALTGRAD_POINTER
#undef ALTGRAD_COUNT
  Result error = driver.cuLaunchKernel(
      entry.kernel, unsigned(std::min(blocks, entry.mostBlocks)), 1, 1,
      ALTGRAD_BLOCK_THREADS, 1, 1, 0, stream, parameters, nullptr);
  return error ? driver.refuse(error, entry.phase->symbol.c_str()) : ALTGRAD_OK;
}

altgrad_status CudaExecutor::launchAll(const Tables &tables,
                                       const Launch &launch,
                                       const CudaTables &where,
                                       CudaStream stream) {
  altgrad_args args = launch.args;
  args.rows = (const uint64_t *)where.address(RowTable);
  args.inputs = (const uint64_t *)where.address(InputTable);
  args.chunks = (const altgrad_chunk *)where.address(ChunkTable);
  args.groups = (const uint64_t *)where.address(GroupTable);
  args.scalars = (const uint64_t *)where.address(ScalarTable);
  for (int64_t i = launch.first; i < launch.last; ++i) {
    const Kernels::Entry &entry = kernels->phases[size_t(i)];
    if (altgrad_status status =
            launchPhase(entry, itemsOf(*entry.phase, tables), args, stream))
      return status;
  }
  return ALTGRAD_OK;
}

altgrad_status CudaExecutor::run(const Tables &tables, const Launch &launch,
                                 unsigned &changed) {
  if (altgrad_status status = checkUsable())
    return status;
  Entered entered(driver, gpu->context);
  if (entered.error)
    return driver.refuse(entered.error, "entering the CUDA context");
  auto stream = static_cast<CudaStream>(launch.stream);
  uint64_t capture = 0;
  if (altgrad_status status = askCapture(driver, stream, capture))
    return status;
  const CudaTables *where = &memory;
  if (altgrad_status status =
          capture ? orderCaptured(tables, stream, capture, where)
                  : order(tables, stream, changed))
    return status;
  altgrad_status status = launchAll(tables, launch, *where, stream);
  // Also after a failure: the kernels before it may still run.
  if (driver.cuEventRecordWithFlags(last.get(), stream,
                                    capture ? externalEvent : 0) == 0)
    used = true;
  return status;
}

} // namespace

altgrad_status
altgrad::runtime::createCudaExecutor(const Bundle &bundle, int ordinal,
                                     std::unique_ptr<Executor> &out) {
  std::shared_ptr<Gpu> gpu;
  if (altgrad_status status = Gpu::find(ordinal, gpu))
    return status;
  std::shared_ptr<const Kernels> kernels;
  if (altgrad_status status = findKernels(gpu, bundle, kernels))
    return status;
  auto executor =
      std::make_unique<CudaExecutor>(std::move(gpu), std::move(kernels));
  if (altgrad_status status = executor->open())
    return status;
  out = std::move(executor);
  return ALTGRAD_OK;
}

altgrad_status altgrad::runtime::findCapture(void *stream, uint64_t &capture) {
  const Driver *driver = nullptr;
  if (altgrad_status status = openDriver(driver))
    return status;
  return askCapture(*driver, static_cast<CudaStream>(stream), capture);
}
