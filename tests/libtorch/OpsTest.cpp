// The functions of gradients from C++: numbers known beforehand, and torch's.
#include "altgrad/ops.h"

#include "Model.h"

#include <gtest/gtest.h>
#include <torch/nn/utils/clip_grad.h>

using namespace altgrad::ops;
using at::Tensor;

namespace {

std::vector<Tensor> parameters(std::vector<Tensor> grads) {
  std::vector<Tensor> made;
  for (Tensor &grad : grads) {
    made.push_back(at::zeros_like(grad).set_requires_grad(true));
    made.back().mutable_grad() = grad;
  }
  return made;
}

TEST(Ops, NormsOfEachKindAndOfMixedTypes) {
  std::vector<Tensor> grads{at::tensor({3.0f, -4.0f}), Tensor(),
                            at::tensor({12.0f}).to(at::kBFloat16)};
  EXPECT_EQ(compute_global_grad_norm(grads).item<float>(), 13);
  EXPECT_EQ(compute_global_grad_norm(grads, 1).item<float>(), 19);
  EXPECT_EQ(compute_global_grad_norm(grads, INFINITY).item<float>(), 12);
  EXPECT_EQ(compute_global_grad_norm({}).item<float>(), 0);
  grads[0] = grads[0].to(at::kDouble);
  EXPECT_EQ(compute_global_grad_norm(grads).item<double>(), 13);
}

TEST(Ops, ClipsAsTorchDoesAndRunsAgain) {
  for (int round = 0; round < 3; ++round)
    for (at::ScalarType type : {at::kFloat, at::kHalf, at::kDouble}) {
      auto ours =
          parameters({at::randn({300, 17}).to(type), at::randn({5}).to(type)});
      auto theirs =
          parameters({ours[0].grad().clone(), ours[1].grad().clone()});
      Tensor norm = clip_grad_norm_(ours, 0.5);
      double expected = torch::nn::utils::clip_grad_norm_(theirs, 0.5);
      EXPECT_NEAR(norm.item<double>(), expected, 0.1);
      EXPECT_TRUE(at::allclose(ours[0].grad(), theirs[0].grad(), 1e-2, 1e-4));
      EXPECT_NEAR(compute_global_grad_norm({ours[0].grad(), ours[1].grad()})
                      .item<double>(),
                  0.5, 1e-3);
      clip_grad_value_(ours, 0.001);
      EXPECT_LE(ours[0].grad().abs().max().item<double>(), 0.0011);
    }
}

TEST(Ops, UnscalesFindsAndLeavesWhatWasGiven) {
  for (bool inplace : {false, true}) {
    std::vector<Tensor> grads{at::tensor({24.0f, 32.0f}), Tensor()};
    Unscaled got = fused_grad_unscale_clip(grads, 2.5, 8, inplace);
    EXPECT_EQ(got.norm.item<float>(), 5);
    EXPECT_EQ(got.found_inf.item<float>(), 0);
    EXPECT_TRUE(at::allclose(got.grads[0], at::tensor({1.5f, 2.0f})));
    EXPECT_EQ(got.grads[0].is_same(grads[0]), inplace);
    EXPECT_FALSE(got.grads[1].defined());
    EXPECT_EQ(grads[0][0].item<float>() == 24, !inplace);
    Tensor bad = at::tensor({8.0f, INFINITY});
    got = fused_grad_unscale_clip({bad}, 0.1, at::tensor(4.0f), inplace);
    EXPECT_EQ(got.found_inf.item<float>(), 1);
    EXPECT_EQ(got.grads[0][0].item<float>(), 2);
  }
}

TEST(Ops, RefusesBeforeAnythingChanges) {
  auto params = parameters({at::tensor({1.0f, INFINITY})});
  EXPECT_THROW(clip_grad_norm_(params, -1), c10::ValueError);
  EXPECT_THROW(clip_grad_norm_(params, NAN), c10::ValueError);
  EXPECT_THROW(clip_grad_norm_(params, 0.1, 2, true), c10::Error);
  EXPECT_THROW(fused_grad_unscale_clip({params[0].grad()}, 1, 0.0),
               c10::ValueError);
  EXPECT_EQ(params[0].grad()[0].item<float>(), 1);
}

} // namespace
