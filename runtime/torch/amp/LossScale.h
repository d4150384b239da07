// The numbers of a loss scaler on one device.
#ifndef ALTGRAD_TORCH_LOSSSCALE_H
#define ALTGRAD_TORCH_LOSSSCALE_H

#include "table/Program.h"
#include "tensors/DeviceContext.h"

#include <functional>
#include <map>

namespace altgrad::optim {

// Compiled steps read and write them in place, by the keys that
// `altgrad-opt --loss-scaler` gives its arguments of role `scaler`.
class LossScale {
public:
  LossScale(const std::string &variant, const DeviceContext &context);

  // A 0-dim tensor; throws where there is none of this key.
  const at::Tensor &at(const std::string &key) const;
  void set(const std::string &key, double value) { at(key).fill_(value); }
  // Makes the next numbers the current ones, and forgets what was found.
  void advance();
  // Takes the current numbers of another device; with `forget` what it has
  // found, too.
  void follow(const LossScale &other, bool forget);
  // Computes the next numbers from `found` and what was found elsewhere.
  void computeNext(const std::vector<at::Tensor> &shares);

private:
  DeviceContext context;
  std::shared_ptr<const Program> program; // of scalars alone
  at::Tensor memory;                      // bytes, 8 for each
  int64_t nowCount = 0;                   // the first of them, which the same number become
  std::map<std::string, at::Tensor> views;
  std::unique_ptr<altgrad_plan, void (*)(altgrad_plan *)> plan{nullptr, altgrad_plan_free};
};

// One step of an optimizer under a scaler.
struct ScalerStep {
  std::string variant; // "torch" or "boostr"
  std::function<LossScale &(at::Device)> numbersOn;
  std::vector<at::Device> devices; // whose numbers know the next scale
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_LOSSSCALE_H
