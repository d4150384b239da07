// Loss scaling for LibTorch, which has none of its own.
//
//   altgrad::amp::GradScaler scaler;
//   scaler.scale(loss).backward();
//   scaler.step(optimizer);
//   scaler.update();
#ifndef ALTGRAD_AMP_H
#define ALTGRAD_AMP_H

#include "altgrad/optim.h"

namespace altgrad::amp {

// The options of torch.amp.GradScaler and some more. After a step that found a gradient that is
// not finite the scale is multiplied by backoff_factor; after growth_interval steps
// without one it is multiplied by growth_factor.
struct GradScalerOptions {
  TORCH_ARG(double, init_scale) = 65536;
  TORCH_ARG(double, growth_factor) = 2;
  TORCH_ARG(double, backoff_factor) = 0.5;
  TORCH_ARG(int64_t, growth_interval) = 2000;
  // The scale stays between these.
  TORCH_ARG(double, min_scale) = 0;
  TORCH_ARG(double, max_scale) = std::numeric_limits<double>::infinity();
  // The scale is reduced at every so many steps that found something, as in Megatron-LM.
  TORCH_ARG(int64_t, hysteresis) = 1;
  // "torch" grows at the interval and never to an infinity, "boostr" grows at or beyond it.
  TORCH_ARG(std::string, variant) = "torch";
  // Without it, scale and unscale_ change nothing and step always steps.
  TORCH_ARG(bool, enabled) = true;
};

// Errors are c10::Error and are thrown before anything is changed.
class GradScaler {
public:
  explicit GradScaler(GradScalerOptions options = {});
  GradScaler(GradScaler &&) noexcept;
  GradScaler &operator=(GradScaler &&) noexcept;
  ~GradScaler();

  // Returns `loss` times the scale. The first loss decides on which device the scale is.
  at::Tensor scale(const at::Tensor &loss);
  // Divides the optimizer's gradients by the scale, in place. May be called once before a step.
  void unscale_(torch::optim::Optimizer &optimizer);
  // Steps unless a gradient is not finite. With an optimizer of altgrad::optim this is one
  // program; it reads nothing back and leaves the gradients scaled. The gradients of any
  // other optimizer are unscaled first, and the host reads whether they are finite.
  void step(torch::optim::Optimizer &optimizer);
  // Ends the step: the next scale, or `new_scale`, holds from now on.
  void update();
  void update(double new_scale);

  bool is_enabled() const { return options.enabled(); }
  double get_scale() const; // waits for the device
  int64_t get_growth_tracker() const;

  void save(torch::serialize::OutputArchive &archive) const;
  void load(torch::serialize::InputArchive &archive);

private:
  struct State;
  void begin(at::Device device);
  void finish();
  GradScalerOptions options;
  std::unique_ptr<State> state;
};

} // namespace altgrad::amp

#endif // ALTGRAD_AMP_H
