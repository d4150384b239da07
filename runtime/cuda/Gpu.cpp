// Contexts, and blocks of memory that plans hand on to each other.
#include "cuda/Gpu.h"
#include "Status.h"

#include <algorithm>
#include <map>

using namespace altgrad::runtime;

namespace {

// Freed behind this many: by then a model changes its tables for good.
constexpr size_t mostSpare = 16;
// Several uploads of small tables are on their way at the same time.
constexpr size_t leastBytes = 16 << 10, uploadsInFlight = 4;

// Never destroyed: the driver may be gone before this library's statics are.
struct Registry {
  std::mutex lock;
  std::map<Context, std::weak_ptr<Gpu>> known;
  std::vector<std::shared_ptr<Gpu>> primary; // for the life of the process
  Allocator allocator;
};
Registry &registry() {
  static auto *all = new Registry;
  return *all;
}

altgrad_status retainPrimary(const Driver &driver, int ordinal, Device &device, Context &context) {
  int count = 0;
  if (Result error = driver.cuDeviceGetCount(&count))
    return driver.refuse(error, "counting the CUDA devices");
  if (ordinal >= count)
    return fail(ALTGRAD_UNAVAILABLE, "cuda:%d of %d CUDA devices", ordinal, count);
  if (Result error = driver.cuDeviceGet(&device, ordinal))
    return driver.refuse(error, "cuDeviceGet");
  if (Result error = driver.cuDevicePrimaryCtxRetain(&context, device))
    return driver.refuse(error, "the primary context of the CUDA device");
  return ALTGRAD_OK;
}

} // namespace

altgrad_status altgrad_set_cuda_memory(void *(*allocate)(int32_t device, uint64_t bytes, void *stream, void *context),
                                       void (*release)(void *memory, void *context), void *context) {
  if (!allocate != !release)
    return fail(ALTGRAD_INVALID, "altgrad_set_cuda_memory: %s is NULL", allocate ? "release" : "allocate");
  return guarded([&]() -> altgrad_status {
    std::lock_guard<std::mutex> held(registry().lock);
    registry().allocator = {allocate, release, context};
    return ALTGRAD_OK;
  });
}

altgrad_status Gpu::find(int ordinal, std::shared_ptr<Gpu> &out) {
  const Driver *driver = nullptr;
  if (altgrad_status status = openDriver(driver))
    return status;
  Context context = nullptr;
  Result error = driver->cuCtxGetCurrent(&context);
  Device device = -1;
  if (!error && context)
    error = driver->cuCtxGetDevice(&device);
  if (error)
    return driver->refuse(error, "the current CUDA context");
  bool own = !context || (ordinal >= 0 && device != ordinal);
  if (own)
    if (altgrad_status status = retainPrimary(*driver, std::max(ordinal, 0), device, context))
      return status;
  Registry &all = registry();
  std::lock_guard<std::mutex> held(all.lock);
  std::weak_ptr<Gpu> &slot = all.known[context];
  out = slot.lock();
  if (!out) {
    slot = out = std::make_shared<Gpu>(*driver, device, context, own);
    if (own)
      all.primary.push_back(out);
  } else if (own) {
    driver->cuDevicePrimaryCtxRelease(device); // it is retained already
  }
  return ALTGRAD_OK;
}

void Gpu::forgetAll() {
  Registry &all = registry();
  std::lock_guard<std::mutex> held(all.lock);
  all.known.clear();
  all.primary.clear();
}

Gpu::~Gpu() {
  if (driverIsParents())
    return;
  {
    Entered entered(driver, context);
    if (entered.error == 0)
      for (Free &free : spare)
        release(free.block, free.after);
    if (entered.error == 0 && copies)
      driver.cuStreamDestroy(copies);
    spare.clear();
  }
  if (retained)
    driver.cuDevicePrimaryCtxRelease(device);
}

altgrad_status Gpu::makeEvent(SharedEvent &out) {
  Event event = nullptr;
  if (Result error = driver.cuEventCreate(&event, eventWithoutTiming))
    return driver.refuse(error, "cuEventCreate");
  out = SharedEvent(event, [&driver = driver](Event event) {
    if (!driverIsParents())
      driver.cuEventDestroy(event);
  });
  return ALTGRAD_OK;
}

altgrad_status Gpu::copyStream(CudaStream &out) {
  std::lock_guard<std::mutex> held(lock);
  if (!copies)
    if (Result error = driver.cuStreamCreate(&copies, streamNonBlocking)) {
      copies = nullptr;
      return driver.refuse(error, "cuStreamCreate");
    }
  out = copies;
  return ALTGRAD_OK;
}

// The caller's allocator may take locks of its own, so none is held around it.
Result Gpu::allocateDevice(Block &block) {
  {
    std::lock_guard<std::mutex> held(registry().lock);
    block.from = registry().allocator;
  }
  if (!block.from.allocate)
    return driver.cuMemAlloc(&block.device, block.bytes);
  CudaStream copies = nullptr;
  if (copyStream(copies) != ALTGRAD_OK)
    return errorOutOfMemory;
  Entered entered(driver, context, /*again=*/true);
  block.device = DevicePointer(block.from.allocate(device, block.bytes, copies, block.from.context));
  return block.device ? 0 : errorOutOfMemory;
}

altgrad_status Gpu::allocate(size_t bytes, Block &out) {
  Block block;
  block.bytes = bytes;
  block.pinnedBytes = bytes * uploadsInFlight;
  const char *what = "memory for the tables of a plan";
  Result error = allocateDevice(block);
  if (error) {
    block.device = 0;
  } else {
    what = "pinned memory for the tables of a plan";
    void *pinned = nullptr;
    error = driver.cuMemHostAlloc(&pinned, block.pinnedBytes, hostPortable);
    block.pinned = error ? nullptr : static_cast<char *>(pinned);
  }
  for (Event &event : block.events)
    if (!error && (error = driver.cuEventCreate(&event, eventWithoutTiming)))
      event = nullptr;
  if (error) {
    altgrad_status status = driver.refuse(error, what);
    release(block, nullptr);
    return status;
  }
  out = block;
  return ALTGRAD_OK;
}

bool Gpu::takeSpare(size_t bytes, Block &out) {
  std::lock_guard<std::mutex> held(lock);
  auto best = spare.end();
  for (auto i = spare.begin(); i != spare.end(); ++i)
    if (i->block.bytes >= bytes && i->block.bytes <= bytes * 8 &&
        (best == spare.end() || i->block.bytes < best->block.bytes) &&
        (!i->after || driver.cuEventQuery(i->after.get()) == 0))
      best = i;
  if (best == spare.end())
    return false;
  out = best->block;
  spare.erase(best);
  return true;
}

altgrad_status Gpu::acquire(size_t bytes, Block &out) {
  bytes = std::max(bytes + bytes / 4, leastBytes);
  return takeSpare(bytes, out) ? altgrad_status(ALTGRAD_OK) : allocate(bytes, out);
}

void Gpu::giveBack(const Block &block, SharedEvent after) {
  if (!block.device)
    return;
  Free oldest;
  {
    std::lock_guard<std::mutex> held(lock);
    spare.push_back({block, std::move(after)});
    if (spare.size() <= mostSpare)
      return;
    oldest = std::move(spare.front());
    spare.erase(spare.begin());
  }
  release(oldest.block, oldest.after); // waits for the device
}

void Gpu::release(Block &block, const SharedEvent &after) {
  if (block.device && !block.from.release) {
    driver.cuMemFree(block.device);
  } else if (block.device) {
    if (after)
      driver.cuEventSynchronize(after.get());
    Entered entered(driver, context, /*again=*/true);
    block.from.release(reinterpret_cast<void *>(block.device), block.from.context);
  }
  if (block.pinned)
    driver.cuMemFreeHost(block.pinned);
  for (Event event : block.events)
    if (event)
      driver.cuEventDestroy(event);
  block = Block();
}
