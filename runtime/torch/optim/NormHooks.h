// Early norm: hooks on parameters sum each gradient for the norm as backward finishes
// it.
#ifndef ALTGRAD_TORCH_NORMHOOKS_H
#define ALTGRAD_TORCH_NORMHOOKS_H

#include "table/TensorTable.h"

#include <torch/csrc/autograd/function.h>

#include <mutex>

namespace altgrad::optim {

// On the nodes that accumulate gradients, behind all hooks of the tensors:
// what these change is summed as it is then.
class NormHooks {
public:
  NormHooks();
  NormHooks(const NormHooks &) = delete;
  NormHooks &operator=(const NormHooks &) = delete;
  ~NormHooks();

  // While it is held no hook sums, and none waits for it.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(*running); }
  // Puts hooks on the parameters of these tables, in place of all earlier ones.
  // Under the lock, as all that follow.
  void attach(const std::vector<TensorTable *> &tables);
  void remove();
  // Says once why sums of the last step were not taken.
  void warnOfUnused();

private:
  struct Watched;
  struct Live;
  struct Hook;
  void warnOnce(const std::string &count, const std::string &reason);

  std::shared_ptr<std::mutex> running = std::make_shared<std::mutex>();
  std::shared_ptr<Watched> watched; // what the hooks look for
  std::vector<std::pair<std::shared_ptr<torch::autograd::Node>, uintptr_t>> hooks;
  std::set<std::string> warned;
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_NORMHOOKS_H
