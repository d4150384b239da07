// The seed of an optimizer whose stores round stochastically, and how often it
// has drawn.
#include "optim/Binding.h"
#include "tensors/Lasting.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/serialize/archive.h>

#include <limits>

using namespace altgrad::optim;
using at::Tensor;

// The steps of the parts raise the count where it lies: the first one's is the
// optimizer's own. All parts step together.
void Binding::placeDraws() {
  for (size_t p = 0; p < parts.size(); ++p) {
    const std::vector<Scalar> &singles = parts[p].program->singles;
    for (size_t i = 0; i < singles.size(); ++i) {
      if (singles[i].role != ALTGRAD_ROLE_RANDOM)
        continue;
      if (!seed.defined()) {
        Lasting lasting;
        seed = spec.seed() ? at::scalar_tensor(*spec.seed(), at::kLong)
                           : at::randint(std::numeric_limits<int64_t>::max(), {}, at::kLong);
        draws = at::zeros({}, at::kLong);
      }
      at::Device device = parts[p].where.device();
      bool isSeed = singles[i].key == "seed";
      const Tensor &from = isSeed ? seed : draws;
      Tensor memory = from.to(device, at::kLong, /*non_blocking=*/true,
                              /*copy=*/p > 0 && !isSeed);
      if (p == 0 && !isSeed)
        draws = memory;
      parts[p].table->values.place(i, memory);
    }
  }
}

void Binding::saveDraws(torch::serialize::OutputArchive &archive) const {
  if (!seed.defined())
    return;
  archive.write("seed", seed, /*is_buffer=*/true);
  archive.write("draws", draws, /*is_buffer=*/true);
}

Binding::Draws Binding::readDraws(torch::serialize::InputArchive &archive) {
  Tensor given, count;
  if (!archive.try_read("seed", given, /*is_buffer=*/true) || !archive.try_read("draws", count, /*is_buffer=*/true))
    return std::nullopt;
  for (const Tensor &number : {given, count})
    TORCH_CHECK(number.numel() == 1 && number.scalar_type() == at::kLong,
                "altgrad: the file has a seed or a count of draws of ", number.scalar_type(), " with sizes ",
                number.sizes(), ", expected one int64 each");
  return std::pair(given.reshape(at::IntArrayRef()), count.reshape(at::IntArrayRef()));
}

// A file without them says nothing of them.
void Binding::takeDraws(Draws given) {
  if (!given)
    return;
  std::tie(seed, draws) = std::move(*given);
  bound = false;
}
