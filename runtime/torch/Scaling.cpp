// One step of an optimizer under a loss scaler: where its numbers are.
#include "Binding.h"

#include <ATen/ops/zeros.h>

using namespace altgrad::optim;
using at::Tensor;

// The count of skipped steps on a device; a new one goes on from the others.
static Tensor countOn(at::Device device, std::vector<Tensor> &skips) {
  for (const Tensor &count : skips)
    if (count.device() == device)
      return count;
  Tensor begin = at::zeros({}, at::TensorOptions().dtype(at::kLong));
  skips.push_back((skips.empty() ? begin : skips[0]).to(device).clone());
  return skips.back();
}

void Binding::place(Scaling &scaling) {
  for (const Part &part : parts) {
    at::Device device = part.where.device();
    LossScale &numbers = scaling.numbersOn(device);
    const std::vector<Scalar> &singles = part.program->singles;
    for (size_t i = 0; i < singles.size(); ++i)
      if (singles[i].key == "skipped")
        part.table->values.place(i, countOn(device, skips));
      else if (singles[i].role == ALTGRAD_ROLE_SCALE ||
               singles[i].role == ALTGRAD_ROLE_SCALER)
        part.table->values.place(i, numbers.at(singles[i].key));
    scaling.devices.push_back(device);
  }
}
