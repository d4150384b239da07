// The numbers of a loss scaler on one device.
#ifndef ALTGRAD_TORCH_LOSSSCALE_H
#define ALTGRAD_TORCH_LOSSSCALE_H

#include "Program.h"
#include "Where.h"

#include <functional>
#include <map>

namespace altgrad::optim {

// Compiled steps read and write them in place, by the keys that
// `altgrad-opt --loss-scaler` gives its arguments of role `scaler`.
class LossScale {
public:
  LossScale(std::string variant, const Where &where);

  // A 0-dim tensor; throws where there is none of this key.
  const at::Tensor &at(const std::string &key) const;
  void set(const std::string &key, double value) { at(key).fill_(value); }
  // Makes the next numbers the current ones, and forgets what was found.
  void advance();
  // Takes the current numbers of another device.
  void follow(const LossScale &other);
  // Computes the next numbers from `found` and what was found elsewhere.
  void computeNext(const std::vector<at::Tensor> &shares);

private:
  std::string variant;
  Where where;
  at::Tensor memory; // 8 bytes each, as f64
  std::map<std::string, at::Tensor> views;
  std::shared_ptr<const Program> program;
  std::unique_ptr<altgrad_plan, void (*)(altgrad_plan *)> plan{
      nullptr, altgrad_plan_free};
};

// One step of an optimizer under a scaler.
struct Scaling {
  std::string variant; // "torch" or "boostr"
  std::function<LossScale &(at::Device)> numbersOn;
  std::vector<at::Device> devices; // whose numbers know the next scale
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_LOSSSCALE_H
