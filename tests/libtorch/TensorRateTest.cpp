// Hyper-parameters that lie in tensors.
#include "Model.h"

#include <altgrad/optim.h>

#include <gtest/gtest.h>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

void regrad(const Tensor &param, int seed) {
  at::manual_seed(uint64_t(seed));
  param.mutable_grad() = at::randn_like(param);
}

double rateAt(int step) { return step == 3 ? 0.0 : 0.5 / (1 << step); } // which every dtype has

// torch's class gets each rate as a number.
TEST(TensorRate, IsReadInEveryStep) {
  for (at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    std::vector<Tensor> ours{leaf({300, 7}), leaf({5})}, theirs{twin(ours[0]), twin(ours[1])};
    AdamW optimizer({torch::optim::OptimizerParamGroup({ours[0]}), torch::optim::OptimizerParamGroup({ours[1]})},
                    AdamWOptions(0.125).weight_decay(0.1));
    torch::optim::AdamW reference(
        {torch::optim::OptimizerParamGroup({theirs[0]}), torch::optim::OptimizerParamGroup({theirs[1]})},
        AdamWOptions(0.125).weight_decay(0.1));
    Tensor rate = at::zeros({}, type);
    optimizer.set_tensor(1, "lr", rate);
    for (int step = 0; step < 5; ++step) {
      rate.fill_(rateAt(step));
      reference.param_groups()[1].options().set_lr(rateAt(step));
      for (size_t i = 0; i < 2; ++i)
        regrad(ours[i], step), regrad(theirs[i], step);
      optimizer.step();
      reference.step();
    }
    for (size_t i = 0; i < 2; ++i)
      EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-5, 1e-6)) << type << ", parameter " << i;
  }
}

TEST(TensorRate, OptionsHoldAgainWithoutIt) {
  Tensor param = at::ones({8}).requires_grad_();
  param.mutable_grad() = at::ones({8});
  RuleOptimizer optimizer({param}, "sgd", RuleOptions(0.25));
  optimizer.step();
  optimizer.set_tensor(0, "lr", at::full({1}, 2.0f));
  optimizer.param_groups()[0].options().set_lr(0.5);
  optimizer.step();
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.5);
  optimizer.set_tensor(0, "lr", Tensor());
  optimizer.step();
  EXPECT_EQ(param[0].item<float>(), 1 - 0.25 - 2 - 0.5);
}

TEST(TensorRate, WhatHasNoPlaceIsRefused) {
  Adam optimizer({leaf({3})});
  EXPECT_THROW(optimizer.set_tensor(1, "lr", at::ones({})), c10::Error);
  EXPECT_THROW(optimizer.set_tensor(0, "momentum", at::ones({})), c10::Error);
  EXPECT_THROW(optimizer.set_tensor(0, "lr", at::ones({2})), c10::Error);
  optimizer.step();
}

} // namespace
