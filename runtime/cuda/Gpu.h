// What all plans on one CUDA context share: the context itself, and memory for
// their tables, which is used again rather than freed.
#ifndef ALTGRAD_RUNTIME_GPU_H
#define ALTGRAD_RUNTIME_GPU_H

#include "cuda/Driver.h"

#include <memory>
#include <mutex>
#include <vector>

namespace altgrad::runtime {

// An event that several owners wait for.
using SharedEvent = std::shared_ptr<EventOpaque>;

// Who gives memory of devices: the driver, or a program's own allocator
// (altgrad_set_cuda_memory).
struct Allocator {
  void *(*allocate)(int32_t device, uint64_t bytes, void *stream, void *context) = nullptr;
  void (*release)(void *memory, void *context) = nullptr;
  void *context = nullptr;
};

// Device memory for the tables of one plan, and pinned memory through which
// they travel.
struct Block {
  static constexpr int eventCount = 32;
  DevicePointer device = 0;
  char *pinned = nullptr;
  size_t bytes = 0, pinnedBytes = 0;
  Allocator from; // the device memory; all null: the driver
  Event events[eventCount] = {};
};

class Gpu {
public:
  // `ordinal` < 0: the device of the current context. The current context, if
  // it is of that device, else the primary one, which is torch's.
  static altgrad_status find(int ordinal, std::shared_ptr<Gpu> &out);
  // For tests, which let the driver start over.
  static void forgetAll();
  Gpu(const Driver &driver, Device device, Context context, bool retained)
      : driver(driver), device(device), context(context), retained(retained) {}
  Gpu(const Gpu &) = delete;
  ~Gpu();

  // The context must be current for these two. Freeing memory waits for the
  // device, and a step may not: a block goes back with the event after which
  // nobody reads it.
  altgrad_status acquire(size_t bytes, Block &out);
  void giveBack(const Block &block, SharedEvent after);
  altgrad_status makeEvent(SharedEvent &out);
  // A stream for copies that wait for nobody.
  altgrad_status copyStream(CudaStream &out);

  const Driver &driver;
  const Device device;
  const Context context;

private:
  struct Free {
    Block block;
    SharedEvent after;
  };
  bool takeSpare(size_t bytes, Block &out);
  altgrad_status allocate(size_t bytes, Block &out);
  Result allocateDevice(Block &block);
  void release(Block &block, const SharedEvent &after);

  bool retained;
  std::mutex lock;
  std::vector<Free> spare;
  CudaStream copies = nullptr;
};

} // namespace altgrad::runtime

#endif // ALTGRAD_RUNTIME_GPU_H
