// Norms of past steps, by which an optimizer clips to a percentile of them.
#include "optim/Binding.h"
#include "tensors/Lasting.h"

#include <ATen/ops/full.h>
#include <torch/serialize/archive.h>

#include <limits>

using namespace altgrad::optim;
using at::Tensor;

void altgrad::optim::checkBound(const RuleSpec &spec) {
  const std::string &clip = spec.clip();
  TORCH_CHECK(clip.empty() || clip == "percentile" || clip == "agc" || clip == "agc-unit", "altgrad: unknown clip '",
              clip,
              "'; there are 'percentile', 'agc' and 'agc-unit', and the norm "
              "of all gradients where none is given");
  const auto &bound = spec.max_grad_norm();
  TORCH_CHECK(bound || clip.empty(), "altgrad: clip is '", clip, "' and max_grad_norm, its number, is not given");
  TORCH_CHECK(!bound || (*bound >= 0 && (clip != "percentile" || *bound <= 100)), "Invalid max_grad_norm: ", *bound,
              clip.empty() ? "" : " of a ", clip, "; it is a number from 0", clip == "percentile" ? " to 100" : "");
}

// All parts find the same norm: each notes it in a history of its own, of which
// the first one's is the optimizer's.
void Binding::placeHistory() {
  for (size_t p = 0; p < parts.size(); ++p)
    for (size_t i = 0; i < parts[p].program->singles.size(); ++i) {
      const Scalar &single = parts[p].program->singles[i];
      if (single.role != ALTGRAD_ROLE_HISTORY)
        continue;
      if (!history.defined()) {
        Lasting lasting;
        history = at::full({single.numbers()}, std::numeric_limits<float>::quiet_NaN(), at::kFloat);
        history[0] = 0;
      }
      Tensor memory = history.to(parts[p].where.device(), at::kFloat,
                                 /*non_blocking=*/false, /*copy=*/p > 0);
      if (p == 0)
        history = memory;
      parts[p].table->values.place(i, memory);
    }
}

void Binding::saveHistory(torch::serialize::OutputArchive &archive) const {
  if (history.defined())
    archive.write("norm_history", history, /*is_buffer=*/true);
}

// Norms of another run are none of this one's, so without any a new history
// begins.
void Binding::loadHistory(torch::serialize::InputArchive &archive) {
  Tensor given;
  if (archive.try_read("norm_history", given, /*is_buffer=*/true))
    TORCH_CHECK(given.scalar_type() == at::kFloat && given.dim() == 1 && given.numel() == ALTGRAD_HISTORY &&
                    given.is_contiguous(),
                "altgrad: the file has a norm_history of ", given.scalar_type(), " with sizes ", given.sizes(),
                ", expected ", ALTGRAD_HISTORY, " contiguous floats");
  history = given;
  bound = false;
}
