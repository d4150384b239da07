// While it lives, new tensors outlive the step: inference mode would spoil them
// for later ones outside of it.
#ifndef ALTGRAD_TORCH_LASTING_H
#define ALTGRAD_TORCH_LASTING_H

#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>

namespace altgrad::optim {

struct Lasting {
  c10::InferenceMode off{false};
  at::NoGradGuard none; // which leaving inference mode takes back
};

} // namespace altgrad::optim

#endif // ALTGRAD_TORCH_LASTING_H
