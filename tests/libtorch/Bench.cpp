// Times a step of altgrad's AdamW beside torch's: altgrad-libtorch-bench
// TENSORS ELEMENTS [ROUNDS [f32|bf16]]. Every step gets freshly allocated
// gradients, and the candidates take turns round by round.
#include <altgrad/optim.h>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>

using at::Tensor;

namespace {

struct Candidate {
  const char *name;
  std::vector<Tensor> params;
  std::function<void()> step;
  std::vector<double> milliseconds;
};

// torch's fused kernel as torch.optim.AdamW(fused=True) calls it.
std::function<void()> fused(const std::vector<Tensor> &params) {
  struct State {
    std::vector<Tensor> params, m, v, t;
  };
  auto state = std::make_shared<State>();
  for (const Tensor &param : params) {
    state->params.push_back(param.detach());
    state->m.push_back(at::zeros_like(param.detach()));
    state->v.push_back(at::zeros_like(param.detach()));
    state->t.push_back(at::zeros({}));
  }
  return [state, params] {
    at::NoGradGuard none;
    std::vector<Tensor> grads;
    for (const Tensor &param : params)
      grads.push_back(param.grad());
    at::_foreach_add_(state->t, 1);
    at::_fused_adamw_(state->params, grads, state->m, state->v, {}, state->t,
                      1e-3, 0.9, 0.999, 1e-2, 1e-8, false, false);
  };
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2,
                   values.end());
  return values[values.size() / 2];
}

} // namespace

int main(int argc, char **argv) {
  int64_t tensors = argc > 1 ? atoll(argv[1]) : 1000;
  int64_t elements = argc > 2 ? atoll(argv[2]) : 1024;
  int rounds = argc > 3 ? atoi(argv[3]) : 51;
  auto type =
      argc > 4 && std::string(argv[4]) == "bf16" ? at::kBFloat16 : at::kFloat;
  if (tensors < 1 || elements < 0 || rounds < 1) {
    fprintf(stderr, "usage: %s TENSORS ELEMENTS [ROUNDS [f32|bf16]]\n",
            argv[0]);
    return 1;
  }
  auto parameters = [&] {
    std::vector<Tensor> params;
    for (int64_t i = 0; i < tensors; ++i)
      params.push_back(at::randn({elements}).to(type).requires_grad_());
    return params;
  };
  std::vector<Candidate> candidates(3);
  candidates[0] = {"altgrad::optim::AdamW", parameters(), {}, {}};
  candidates[1] = {"torch::optim::AdamW", parameters(), {}, {}};
  candidates[2] = {"at::_fused_adamw_", parameters(), {}, {}};
  altgrad::optim::AdamW ours(candidates[0].params);
  torch::optim::AdamW torchs(candidates[1].params);
  candidates[0].step = [&] { ours.step(); };
  candidates[1].step = [&] { torchs.step(); };
  candidates[2].step = fused(candidates[2].params);

  std::vector<Tensor> source;
  for (int64_t i = 0; i < tensors; ++i)
    source.push_back(at::randn({elements}).to(type));
  constexpr int warmUp = 3;
  for (int round = 0; round < rounds + warmUp; ++round)
    for (Candidate &candidate : candidates) {
      for (int64_t i = 0; i < tensors; ++i)
        candidate.params[i].mutable_grad() = source[i].clone();
      auto start = std::chrono::steady_clock::now();
      candidate.step();
      auto end = std::chrono::steady_clock::now();
      if (round >= warmUp)
        candidate.milliseconds.push_back(
            std::chrono::duration<double, std::milli>(end - start).count());
    }
  printf("%lld tensors of %lld elements, %s, %d threads; median and best of %d "
         "rounds\n",
         (long long)tensors, (long long)elements,
         type == at::kFloat ? "f32" : "bf16", at::get_num_threads(), rounds);
  double own = median(candidates[0].milliseconds);
  for (const Candidate &candidate : candidates)
    printf("%-24s %10.4f ms  %6.2fx  %10.4f ms\n", candidate.name,
           median(candidate.milliseconds), median(candidate.milliseconds) / own,
           *std::min_element(candidate.milliseconds.begin(),
                             candidate.milliseconds.end()));
}
