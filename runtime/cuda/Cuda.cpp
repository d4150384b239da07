// Runs a bundle's PTX on a CUDA device.
#include "Status.h"
#include "cuda/CapturedRun.h"
#include "cuda/Cublas.h"
#include "cuda/Products.h"
#include "matrix/Multiply.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace altgrad::runtime;

namespace {

// With more rows than these a block takes longer for the phases between two
// sweeps than their launches do: 17 us of 1000 tensors where launches take 11,
// by tools/gpu_model.py.
constexpr int64_t mostRowsOfLastBlock = 512;

// On unless it is refused: an H100 has run all of tests/device with it.
bool wantsOverlap() {
  const char *word = secure_getenv("ALTGRAD_CUDA_DEPENDENT_LAUNCH");
  return !word || strcmp(word, "0") != 0;
}

// `capture` is 0 where nothing is captured.
altgrad_status askCapture(const Driver &driver, CudaStream stream, uint64_t &capture, Graph *graph) {
  int capturing = 0;
  if (Result error = driver.cuStreamGetCaptureInfo(stream, &capturing, &capture, graph, nullptr, nullptr))
    return driver.refuse(error, "asking whether the stream is captured");
  capture = capturing ? capture : 0;
  return ALTGRAD_OK;
}

class CudaExecutor final : public Executor {
public:
  CudaExecutor(std::shared_ptr<Gpu> gpu, std::shared_ptr<const Kernels> kernels)
      : gpu(std::move(gpu)), driver(this->gpu->driver), kernels(std::move(kernels)),
        mayOverlap(this->kernels->mayOverlap && wantsOverlap()), products(this->kernels), memory(*this->gpu) {}
  ~CudaExecutor() override;

  altgrad_status open();
  altgrad_status prepare(const Tables &tables) override;
  altgrad_status run(const Tables &tables, const Launch &launch, unsigned &changed) override;
  bool mirrors() const override { return true; }

private:
  altgrad_status order(const Tables &tables, CudaStream stream, unsigned &changed);
  altgrad_status orderCaptured(const Tables &tables, CudaStream stream, uint64_t capture, Graph graph,
                               std::shared_ptr<CapturedRun> &out);
  altgrad_status launchAll(const Tables &tables, const Launch &launch, const CudaTables &where, CudaStream stream,
                           bool captured);
  int64_t finishedBy(int64_t phase, int64_t last, const Tables &tables) const;
  altgrad_status checkGemm(const Launch &launch);
  altgrad_status multiply(const Phase &phase, const Tables &tables, const Launch &launch);
  altgrad_status launchPhase(const Kernels::Entry &entry, Items items, altgrad_args &args, CudaStream stream,
                             bool overlaps);
  altgrad_status checkUsable() const;

  std::shared_ptr<Gpu> gpu;
  const Driver &driver;
  std::shared_ptr<const Kernels> kernels;
  const bool mayOverlap;
  OwnProducts products;
  Cublas *blas = nullptr; // where it is needed
  CudaTables memory;
  std::weak_ptr<CapturedRun> captured; // the newest, its graph's
  bool used = false;
  SharedEvent last; // after everything this plan has given to a stream
};

CudaExecutor::~CudaExecutor() {
  if (driverIsParents())
    return;
  destroyReleased();
  Entered entered(driver, gpu->context);
  if (entered.error)
    return;
  RelaxedCapture relaxed(driver);
  memory.giveBack(used ? last : nullptr);
  last.reset();
}

altgrad_status CudaExecutor::open() {
  Entered entered(driver, gpu->context);
  if (entered.error)
    return driver.refuse(entered.error, "entering the CUDA context");
  if (altgrad_status status = products.open())
    return status;
  return gpu->makeEvent(last);
}

altgrad_status CudaExecutor::checkUsable() const {
  if (driverIsParents())
    return fail(ALTGRAD_UNAVAILABLE, "this CUDA plan belongs to the process that was forked");
  return ALTGRAD_OK;
}

altgrad_status CudaExecutor::prepare(const Tables &tables) {
  if (altgrad_status status = checkUsable())
    return status;
  destroyReleased();
  Entered entered(driver, gpu->context);
  if (entered.error)
    return driver.refuse(entered.error, "entering the CUDA context");
  RelaxedCapture relaxed(driver);
  return memory.reserve(tables, used ? last : nullptr);
}

// Brings the tables up to date before kernels may read them. Whatever streams
// the runs of one plan are given, they follow each other.
altgrad_status CudaExecutor::order(const Tables &tables, CudaStream stream, unsigned &changed) {
  if (used)
    if (Result error = driver.cuStreamWaitEvent(stream, last.get(), 0))
      return driver.refuse(error, "ordering after the last run");
  return memory.upload(tables, stream, changed, kernels->values);
}

// The events are nodes of the graph, so that replays and other runs follow each
// other, too.
altgrad_status CudaExecutor::orderCaptured(const Tables &tables, CudaStream stream, uint64_t capture, Graph graph,
                                           std::shared_ptr<CapturedRun> &out) {
  RelaxedCapture relaxed(driver);
  out = captured.lock();
  if (out && out->capture == capture && out->tables().hold(tables))
    return ALTGRAD_OK;
  out = std::make_shared<CapturedRun>(gpu, kernels, last, capture);
  if (altgrad_status status = out->fill(tables))
    return status;
  if (altgrad_status status = keepWithGraph(driver, graph, out))
    return status;
  if (Result error = driver.cuStreamWaitEvent(stream, last.get(), externalEvent))
    return driver.refuse(error, "a captured graph after the last run");
  captured = out;
  return ALTGRAD_OK;
}

// How many of the phases after this one its last block does: all it can, or none.
int64_t CudaExecutor::finishedBy(int64_t phase, int64_t last, const Tables &tables) const {
  int64_t finishes = kernels->phases[size_t(phase)].phase->finishes;
  bool fits = phase + finishes < last && tables.nrows <= mostRowsOfLastBlock;
  return fits ? finishes : 0;
}

altgrad_status CudaExecutor::launchPhase(const Kernels::Entry &entry, Items items, altgrad_args &args,
                                         CudaStream stream, bool overlaps) {
  int64_t perBlock = entry.phase->perBlock;
  int64_t blocks = (items.end - items.begin + perBlock - 1) / perBlock;
  blocks = std::clamp<int64_t>(blocks, 1, entry.mostBlocks);
#define ALTGRAD_POINTER(type, name, Name) &args.name,
#define ALTGRAD_COUNT(name, Name) &args.name,
  void *parameters[] = {ALTGRAD_ARGS(ALTGRAD_POINTER, ALTGRAD_COUNT) & items.begin, &items.end};
#undef ALTGRAD_POINTER
#undef ALTGRAD_COUNT
  const LaunchAttribute attribute{attributeOverlaps, 0, 1};
  const LaunchConfig config{
      {unsigned(blocks), 1, 1}, {ALTGRAD_BLOCK_THREADS, 1, 1}, entry.dynamicShared, stream, &attribute, 1};
  Result error = overlaps ? driver.cuLaunchKernelEx(&config, entry.kernel, parameters, nullptr)
                          : driver.cuLaunchKernel(entry.kernel, unsigned(blocks), 1, 1, ALTGRAD_BLOCK_THREADS, 1, 1,
                                                  entry.dynamicShared, stream, parameters, nullptr);
  return error ? driver.refuse(error, entry.phase->symbol.c_str()) : ALTGRAD_OK;
}

// Before anything is launched: a step is not done in part for that.
altgrad_status CudaExecutor::checkGemm(const Launch &launch) {
  for (int64_t i = launch.first; i < launch.last; ++i)
    if (!kernels->phases[size_t(i)].kernel && !launch.gemm.multiply && !blas)
      return Cublas::find(gpu, blas);
  return ALTGRAD_OK;
}

// A library may set another context, and make what it keeps while a stream is captured.
altgrad_status CudaExecutor::multiply(const Phase &phase, const Tables &tables, const Launch &launch) {
  Entered entered(driver, gpu->context, /*again=*/true);
  RelaxedCapture relaxed(driver);
  Launch here = launch;
  here.device = gpu->device;
  here.library = blas;
  here.symmetric = &products;
  return multiplyMatrices(phase, tables, kernels->rowWords, here);
}

// The first launch comes after whatever is on the stream; the next ones may
// overlap with the one before, and wait themselves. Not in a graph: drivers
// before 12.3 know no such edge of one.
altgrad_status CudaExecutor::launchAll(const Tables &tables, const Launch &launch, const CudaTables &where,
                                       CudaStream stream, bool captured) {
  products.captured = captured;
  altgrad_args args = launch.args;
  args.rows = (const uint64_t *)where.address(RowTable);
  args.inputs = (const uint64_t *)where.address(InputTable);
  args.chunks = (const altgrad_chunk *)where.address(ChunkTable);
  args.groups = (const uint64_t *)where.address(GroupTable);
  args.scalars = (const uint64_t *)where.address(ScalarTable);
  args.sets = (const int64_t *)where.address(SetTable);
  bool follows = false;
  for (int64_t i = launch.first; i < launch.last; ++i) {
    const Kernels::Entry &entry = kernels->phases[size_t(i)];
    if (!entry.kernel) {
      if (altgrad_status status = multiply(*entry.phase, tables, launch))
        return status;
      follows = false;
      continue;
    }
    int64_t others = launch.part.isWhole() ? finishedBy(i, launch.last, tables) : 0;
    args.finished = others ? (uint32_t *)where.address(FinishedTable) : nullptr;
    Items items = itemsOf(*entry.phase, tables, launch.part);
    if (items.begin < items.end || others) {
      if (altgrad_status status = launchPhase(entry, items, args, stream, follows && mayOverlap && !captured))
        return status;
      follows = true;
    }
    i += others;
  }
  return ALTGRAD_OK;
}

altgrad_status CudaExecutor::run(const Tables &tables, const Launch &launch, unsigned &changed) {
  if (altgrad_status status = checkUsable())
    return status;
  destroyReleased();
  Entered entered(driver, gpu->context);
  if (entered.error)
    return driver.refuse(entered.error, "entering the CUDA context");
  if (altgrad_status status = checkGemm(launch))
    return status;
  auto stream = static_cast<CudaStream>(launch.stream);
  uint64_t capture = 0;
  Graph graph = nullptr;
  if (altgrad_status status = askCapture(driver, stream, capture, &graph))
    return status;
  std::shared_ptr<CapturedRun> replayed;
  if (altgrad_status status =
          capture ? orderCaptured(tables, stream, capture, graph, replayed) : order(tables, stream, changed))
    return status;
  if (replayed)
    if (altgrad_status status = replayed->keep(launch.owner))
      return status;
  altgrad_status status = launchAll(tables, launch, replayed ? replayed->tables() : memory, stream, capture != 0);
  // Also after a failure: the kernels before it may still run.
  if (driver.cuEventRecordWithFlags(last.get(), stream, capture ? externalEvent : 0) == 0)
    used = true;
  return status;
}

} // namespace

altgrad_status altgrad::runtime::createCudaExecutor(const Bundle &bundle, int ordinal, std::unique_ptr<Executor> &out) {
  destroyReleased();
  std::shared_ptr<Gpu> gpu;
  if (altgrad_status status = Gpu::find(ordinal, gpu))
    return status;
  std::shared_ptr<const Kernels> kernels;
  if (altgrad_status status = findKernels(gpu, bundle, kernels))
    return status;
  auto executor = std::make_unique<CudaExecutor>(std::move(gpu), std::move(kernels));
  if (altgrad_status status = executor->open())
    return status;
  out = std::move(executor);
  return ALTGRAD_OK;
}

altgrad_status altgrad::runtime::findCapture(void *stream, uint64_t &capture) {
  const Driver *driver = nullptr;
  if (altgrad_status status = openDriver(driver))
    return status;
  return askCapture(*driver, static_cast<CudaStream>(stream), capture, nullptr);
}
