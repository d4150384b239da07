// What an optimizer's steps count and note where it lies; the seed of those that round stochastically, and how often
// they have drawn.
#include "optim/Binding.h"
#include "tensors/Lasting.h"

#include <ATen/ops/full.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <torch/serialize/archive.h>

#include <limits>

using namespace altgrad::optim;
using at::Tensor;

Tensor *Binding::ownOf(const Scalar &single) {
  switch (single.role) {
  case ALTGRAD_ROLE_RANDOM:
    return is(single.key, "seed") ? &seed : &draws;
  case ALTGRAD_ROLE_HISTORY:
    return &history;
  case ALTGRAD_ROLE_STATISTIC:
    return &counts[single.key];
  default:
    return nullptr;
  }
}

Tensor Binding::beginOf(const Scalar &single) const {
  Lasting lasting;
  if (single.role == ALTGRAD_ROLE_HISTORY) {
    Tensor none = at::full({numbersOf(single)}, std::numeric_limits<float>::quiet_NaN(), at::kFloat);
    none[0] = 0;
    return none;
  }
  if (!is(single.key, "seed"))
    return at::zeros({}, at::kLong);
  return spec.seed() ? at::scalar_tensor(*spec.seed(), at::kLong)
                     : at::randint(std::numeric_limits<int64_t>::max(), {}, at::kLong);
}

// The steps of the parts raise counts and note norms where these lie: those of the first part that has one are the
// optimizer's own. All parts step together and find the same.
void Binding::placeOwn() {
  std::set<const Tensor *> placed;
  for (size_t p = 0; p < parts.size(); ++p)
    for (size_t i = 0; i < parts[p].program->singles.size(); ++i) {
      const Scalar &single = parts[p].program->singles[i];
      if (single.role == ALTGRAD_ROLE_STATISTIC && is(single.key, "skipped")) {
        bringSkips();
        parts[p].table->values.place(i, skips[p]);
        continue;
      }
      Tensor *own = ownOf(single);
      if (!own)
        continue;
      if (!own->defined())
        *own = beginOf(single);
      const bool isSeed = own == &seed, isFirst = placed.insert(own).second;
      Tensor memory =
          own->to(parts[p].where.device(), typeOf(single), /*non_blocking=*/single.role == ALTGRAD_ROLE_RANDOM,
                  /*copy=*/!isFirst && !isSeed);
      if (isFirst && !isSeed)
        *own = memory;
      parts[p].table->values.place(i, memory);
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
