// Asks c10 about devices.
#include "Where.h"
#include "Program.h"

#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdlib>

using namespace altgrad::optim;

// What tensors of the CPU stand for in tests; "cpu" elsewhere.
static const std::string &standsFor() {
  static const std::string word = [] {
    const char *given = getenv("ALTGRAD_CPU_STANDS_FOR");
    return std::string(given && *given ? given : "cpu");
  }();
  return word;
}

bool Where::isKnown(at::Device device) {
  return device.is_cpu() || device.is_cuda();
}

Where::Where(at::Device device)
    : place(device),
      plan(device.is_cpu() ? standsFor()
                           : "cuda:" + std::to_string(device.index())) {
  TORCH_CHECK(isKnown(device), "altgrad: no kernels for tensors on ", device);
}

altgrad_plan *Where::makePlan(altgrad_bundle *bundle) const {
  c10::OptionalDeviceGuard guard(place);
  altgrad_plan *made = nullptr;
  check(altgrad_plan_create(bundle, plan.c_str(), &made));
  return made;
}

void *Where::stream() const {
  if (place.is_cpu())
    return nullptr;
  c10::impl::VirtualGuardImpl torch(place.type());
  return torch.getStreamNativeHandle(torch.getStream(place));
}

bool Where::isCapturing() const {
  int32_t capturing = 0;
  if (!isHost()) {
    c10::OptionalDeviceGuard guard(place);
    check(altgrad_capturing(stream(), &capturing));
  }
  return capturing != 0;
}

at::DataPtr Where::allocate(size_t size) const {
  c10::OptionalDeviceGuard guard(place);
  return c10::GetAllocator(place.type())->allocate(size);
}

at::Tensor Where::view(Memory memory, size_t offset,
                       at::ScalarType type) const {
  auto *owner = new Memory(std::move(memory));
  void *data = static_cast<char *>((*owner)->get()) + offset;
  return at::for_blob(data, {})
      .context(owner, [](void *owner) { delete static_cast<Memory *>(owner); })
      .target_device(place)
      .options(at::TensorOptions().device(place).dtype(type))
      .make_tensor();
}

void Where::record(const at::DataPtr &memory) const {
  if (place.is_cpu())
    return;
  c10::impl::VirtualGuardImpl torch(place.type());
  torch.recordDataPtrOnStream(memory, torch.getStream(place));
}
