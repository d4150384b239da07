// Memory that captured graphs use, kept for as long as they live.
#ifndef ALTGRAD_TORCH_OWNED_H
#define ALTGRAD_TORCH_OWNED_H

#include "tensors/DeviceContext.h"

#include <vector>

namespace altgrad::optim {

// Storages and not tensors: nobody's Python object or gradient stays alive.
struct Owned {
  std::vector<c10::Storage> storages;

  void add(const at::Tensor &tensor) {
    if (tensor.defined() && tensor.has_storage())
      storages.push_back(tensor.storage());
  }
  // Keeps all of it from being used for something else before the current stream is
  // done with it.
  void record(const DeviceContext &context) const {
    for (const c10::Storage &storage : storages)
      context.record(storage.data_ptr());
  }
};

// Has the graphs in which a plan is captured keep what `user.addTo(Owned &)`
// says then. `user` stays where it is as long as the plan runs.
template <typename User> altgrad_status keepInGraphs(altgrad_plan *plan, User *user) {
  auto hold = [](void *user) noexcept -> void * {
    try {
      auto owned = std::make_unique<Owned>();
      static_cast<User *>(user)->addTo(*owned);
      return owned.release();
    } catch (const std::exception &) { // the runtime refuses the run
      return nullptr;
    }
  };
  return altgrad_set_owner(plan, hold, [](void *owned) { delete static_cast<Owned *>(owned); }, user);
}

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_OWNED_H
