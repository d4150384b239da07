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

// As torch.amp.GradScaler, and what altgrad.amp.GradScaler of Python has beyond
// it: see there.
struct GradScalerOptions {
  TORCH_ARG(double, init_scale) = 65536;
  TORCH_ARG(double, growth_factor) = 2;
  TORCH_ARG(double, backoff_factor) = 0.5;
  TORCH_ARG(int64_t, growth_interval) = 2000;
  TORCH_ARG(double, min_scale) = 0;
  TORCH_ARG(double, max_scale) = std::numeric_limits<double>::infinity();
  TORCH_ARG(int64_t, hysteresis) = 1;
  TORCH_ARG(std::string, variant) = "torch"; // or "boostr"
  TORCH_ARG(bool, enabled) = true;
};

// Errors are c10::Error, before anything is changed.
class GradScaler {
public:
  explicit GradScaler(GradScalerOptions options = {});
  GradScaler(GradScaler &&) noexcept;
  GradScaler &operator=(GradScaler &&) noexcept;
  ~GradScaler();

  // `loss` times the scale, which then lies on the first loss's device.
  at::Tensor scale(const at::Tensor &loss);
  // Divides gradients by the scale in place, once before a step.
  void unscale_(torch::optim::Optimizer &optimizer);
  // Steps unless a gradient is not finite. With an optimizer of altgrad::optim
  // this is one program, which reads nothing back; any other is unscaled first,
  // and the verdict is read.
  void step(torch::optim::Optimizer &optimizer);
  // Takes over the next scale, or another one.
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
