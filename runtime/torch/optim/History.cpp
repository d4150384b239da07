// Norms of past steps, by which an optimizer clips to a percentile of them.
#include "optim/Binding.h"

#include <torch/serialize/archive.h>

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
