// Asks c10 about devices.
#include "tensors/DeviceContext.h"
#include "tensors/Errors.h"
#include "tensors/Lasting.h"

#include <ATen/Context.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <map>
#include <mutex>

using namespace altgrad::optim;

static bool standsForCuda(at::Device device) { return DeviceContext::cudaStandIn == device.type(); }

bool DeviceContext::isKnown(at::Device device) {
  // torch for ROCm calls its GPUs cuda, too.
  return device.is_cpu() || standsForCuda(device) || (device.is_cuda() && !at::globalContext().hasROCM());
}

DeviceContext::DeviceContext(at::Device device) : place(device), plan("cpu") {
  ALTGRAD_CHECK(isKnown(device), "altgrad: no kernels for tensors on ", device);
  if (!device.is_cpu() || standsForCuda(device))
    plan = "cuda:" + std::to_string(std::max<int>(device.index(), 0));
}

namespace {

// Memory of torch's allocator for the tables of plans: where a card is full it frees what
// it holds and tries again.
struct TorchMemory {
  explicit TorchMemory(at::DeviceType type) : type(type) {}

  // A stream that is not torch's is its own number.
  static void *allocate(int32_t device, uint64_t bytes, void *stream, void *context) noexcept {
    auto &self = *static_cast<TorchMemory *>(context);
    at::Device place(self.type, at::DeviceIndex(device));
    try {
      c10::StreamGuard guard(c10::Stream(c10::Stream::UNSAFE, place, c10::StreamId(stream)));
      at::DataPtr memory = c10::GetAllocator(self.type)->allocate(bytes);
      void *address = memory.get();
      std::lock_guard<std::mutex> held(self.lock);
      self.given[address] = std::move(memory);
      return address;
    } catch (const std::exception &) { // there is none
      return nullptr;
    }
  }
  static void release(void *memory, void *context) noexcept {
    auto &self = *static_cast<TorchMemory *>(context);
    at::DataPtr gone;
    std::lock_guard<std::mutex> held(self.lock);
    auto found = self.given.find(memory);
    gone = std::move(found->second);
    self.given.erase(found);
  }

  const at::DeviceType type;
  std::mutex lock;
  std::map<void *, at::DataPtr> given;
};

} // namespace

// Never destroyed: the runtime keeps memory until the process ends.
static void useTorchMemory(at::DeviceType type) {
  static auto *memory = new TorchMemory(type);
  static const altgrad_status status = altgrad_set_cuda_memory(TorchMemory::allocate, TorchMemory::release, memory);
  check(status);
}

altgrad_plan *DeviceContext::makePlan(altgrad_bundle *bundle) const {
  if (!place.is_cpu())
    useTorchMemory(place.type());
  c10::OptionalDeviceGuard guard(place);
  altgrad_plan *made = nullptr;
  check(altgrad_plan_create(bundle, plan.c_str(), &made));
  return made;
}

void *DeviceContext::stream() const {
  if (place.is_cpu())
    return nullptr;
  c10::impl::VirtualGuardImpl torch(place.type());
  return torch.getStreamNativeHandle(torch.getStream(place));
}

bool DeviceContext::isCapturing() const {
  int32_t capturing = 0;
  if (!place.is_cpu()) {
    c10::OptionalDeviceGuard guard(place);
    check(altgrad_capturing(stream(), &capturing));
  }
  return capturing != 0;
}

at::Tensor DeviceContext::allocate(int64_t bytes) const {
  c10::OptionalDeviceGuard guard(place);
  Lasting lasting;
  return at::Tensor(at::detail::empty_generic(
      {bytes}, c10::GetAllocator(place.type()),
      c10::DispatchKeySet(c10::computeDispatchKey(at::kByte, at::kStrided, place)), at::kByte, std::nullopt));
}

at::Tensor altgrad::optim::wordIn(const at::Tensor &memory, int64_t begin, at::ScalarType type) {
  const auto bytes = int64_t(c10::elementSize(type));
  return memory.narrow(0, begin, bytes).view(type).select(0, 0);
}

void DeviceContext::record(const at::DataPtr &memory) const {
  if (place.is_cpu())
    return;
  c10::impl::VirtualGuardImpl torch(place.type());
  torch.recordDataPtrOnStream(memory, torch.getStream(place));
}

at::Tensor altgrad::optim::unwritten(at::Tensor tensor) {
  if (tensor.is_cpu())
    altgrad_prefer_huge_pages(tensor.data_ptr(), tensor.nbytes());
  return tensor;
}
