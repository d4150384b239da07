// Where the tensors of a table lie, as torch and as the runtime call it.
#ifndef ALTGRAD_TORCH_DEVICECONTEXT_H
#define ALTGRAD_TORCH_DEVICECONTEXT_H

#include "altgrad/altgrad.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

namespace altgrad::optim {

// One device. All that only torch knows of a CUDA device is asked here, through
// c10's interface for devices: nothing is linked that a torch without CUDA
// lacks.
class DeviceContext {
public:
  // Throws for a device that no kernel is made for.
  explicit DeviceContext(at::Device device);
  static bool isKnown(at::Device device);
  // Of torch's devices, another that is taken for CUDA's; tests without a GPU set it.
  static inline std::optional<at::DeviceType> cudaStandIn;

  // Whether kernels run in the calling thread and read its memory.
  bool isHost() const { return plan == "cpu"; }
  // A plan for this device; throws what the runtime refuses.
  altgrad_plan *makePlan(altgrad_bundle *bundle) const;
  // torch's current stream of the device, as the driver's; null on the host.
  void *stream() const;
  // Whether what is done now is captured into a graph.
  bool isCapturing() const;
  // Bytes on the device; not by at::empty: a dispatch mode of the caller's would
  // see it.
  at::Tensor allocate(int64_t bytes) const;
  // Keeps memory from being used for something else before the current stream
  // is done with it.
  void record(const at::DataPtr &memory) const;

  at::Device device() const { return place; }

private:
  at::Device place;
  std::string plan; // as altgrad_plan_create calls it
};

// A 0-dim tensor of `memory`, which has bytes, from `begin` on.
at::Tensor wordIn(const at::Tensor &memory, int64_t begin, at::ScalarType type);

// A tensor that nobody has written yet, in huge pages where it lies on the CPU
// and the system has them.
at::Tensor unwritten(at::Tensor tensor);

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_DEVICECONTEXT_H
