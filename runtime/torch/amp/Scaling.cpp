// What a step has to do with a loss scaler: its numbers, and skipped steps, which a program may count without one.
#include "amp/LossScale.h"
#include "optim/Binding.h"

#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <torch/serialize/archive.h>

#include <algorithm>

using namespace altgrad::optim;
using at::Tensor;

static Tensor countOn(at::Device device) {
  c10::InferenceMode off(false);
  return at::zeros({}, at::TensorOptions().dtype(at::kLong).device(device));
}

// Puts the counts of this step's devices first. Devices may take turns: a count
// that has not seen the last step goes on from one that has.
void Binding::bringSkips() {
  std::vector<Tensor> now, others;
  for (const Part &part : parts) {
    at::Device device = part.where.device();
    auto known =
        std::find_if(skips.begin(), skips.end(), [&](const Tensor &count) { return count.device() == device; });
    now.push_back(known == skips.end() ? countOn(device) : *known);
    if (counting && known - skips.begin() >= std::ptrdiff_t(counting))
      now.back().copy_(skips[0], /*non_blocking=*/!device.is_cpu());
  }
  if (now.empty())
    return;
  counting = now.size();
  for (const Tensor &count : skips)
    if (std::none_of(now.begin(), now.end(), [&](const Tensor &other) { return other.is_same(count); }))
      others.push_back(count);
  skips = std::move(now);
  skips.insert(skips.end(), others.begin(), others.end());
}

void Binding::place(Scaling &scaling) {
  bringSkips();
  for (size_t p = 0; p < parts.size(); ++p) {
    at::Device device = parts[p].where.device();
    LossScale &numbers = scaling.numbersOn(device);
    const c10::ArrayRef<Scalar> singles = parts[p].program->singles;
    for (size_t i = 0; i < singles.size(); ++i)
      if (is(singles[i].key, "skipped"))
        parts[p].table->values.place(i, skips[p]);
      else if (singles[i].role == ALTGRAD_ROLE_SCALE || singles[i].role == ALTGRAD_ROLE_SCALER)
        parts[p].table->values.place(i, numbers.at(singles[i].key));
    scaling.devices.push_back(device);
  }
}

void Binding::saveSkips(torch::serialize::OutputArchive &archive) const {
  if (counting)
    archive.write("skipped_steps", skips[0], /*is_buffer=*/true);
}

// A file without it says nothing of it.
void Binding::loadSkips(torch::serialize::InputArchive &archive) {
  Tensor given;
  if (!archive.try_read("skipped_steps", given, /*is_buffer=*/true))
    return;
  TORCH_CHECK(given.numel() == 1 && given.scalar_type() == at::kLong, "altgrad: the file has a skipped_steps of ",
              given.scalar_type(), " with sizes ", given.sizes(), ", expected one int64");
  skips = {countOn(at::kCPU).copy_(given.reshape(at::IntArrayRef()))};
  counting = 1;
  bound = false;
}

void Binding::skip() {
  if (!counting) {
    skips.insert(skips.begin(), countOn(at::kCPU));
    counting = 1;
  }
  for (size_t i = 0; i < counting; ++i)
    skips[i].add_(1);
}
