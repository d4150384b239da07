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

TEST(Ops, SparseGradientsAreLeftToTorch) {
  for (bool inplace : {true, false}) {
    Tensor sparse = at::eye(3).mul_(4).to_sparse();
    Unscaled got = fused_grad_unscale_clip({sparse}, 1e9, 8, inplace);
    EXPECT_TRUE(got.grads[0].to_dense().equal(at::eye(3).mul_(0.5)));
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

// torch, which does what no kernel does, would write beyond it.
TEST(Ops, RefusesAStorageThatWasShrunk) {
  auto params = parameters({at::ones({100}), at::ones({3})});
  params[0].grad().storage().set_nbytes(40);
  EXPECT_THROW(clip_grad_norm_(params, 0.5), c10::Error);
  EXPECT_THROW(clip_grad_value_(params, 0.5), c10::Error);
  EXPECT_THROW(compute_global_grad_norm({params[0].grad()}), c10::Error);
  EXPECT_EQ(params[1].grad().sum().item<float>(), 3);
  params[0].grad().storage().set_nbytes(400);
}

TEST(Ops, NormsOfEachTensorAndWhatGradientsWereMultipliedBy) {
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    auto grads = [&] {
      return std::vector<Tensor>{at::tensor({3.0f, -4.0f}).to(type),
                                 at::tensor({8.0f}),
                                 at::tensor({0.0f, 1.0f}).to(type)};
    };
    auto norms = [&](double kind) {
      return compute_global_grad_norm(grads(), kind, false, true)
          .to(at::kFloat);
    };
    EXPECT_TRUE(at::equal(norms(2), at::tensor({5.0f, 8.0f, 1.0f})));
    EXPECT_TRUE(at::equal(norms(1), at::tensor({7.0f, 8.0f, 1.0f})));
    EXPECT_TRUE(at::equal(norms(INFINITY), at::tensor({4.0f, 8.0f, 1.0f})));
    auto params = parameters(grads());
    Tensor by;
    Tensor norm = clip_grad_norm_(params, 4, 2, false, true, &by);
    EXPECT_TRUE(
        at::allclose(by.to(at::kFloat), at::tensor({0.8f, 0.5f, 1.0f})));
    EXPECT_NEAR(params[1].grad().item<double>(), 4, 1e-4);
    EXPECT_EQ(params[2].grad()[1].item<double>(), 1);
    clip_grad_norm_(params, 100, 2, false, false, &by);
    EXPECT_EQ(by.item<double>(), 1);
    for (double kind : {1.0, 2.0, double(INFINITY)}) {
      Unscaled got = fused_grad_unscale_clip(grads(), 2, 0.5, true, kind, true);
      EXPECT_TRUE(at::allclose(got.norm.to(at::kFloat), norms(kind) * 2));
      EXPECT_NEAR(got.grads[1].item<double>(), 2, 1e-4);
    }
  }
  EXPECT_EQ(compute_global_grad_norm({}, 2, false, true).numel(), 0);
  EXPECT_THROW(compute_global_grad_norm({at::tensor({NAN})}, 2, true, true),
               c10::Error);
}

TEST(Ops, TheLossScaleOfNumbersAndOfTensorsIsOne) {
  double scale = 1024;
  int64_t tracker = 0;
  Tensor scales = at::tensor(1024.0f), trackers = at::tensor(int64_t(0));
  std::vector<double> walked;
  for (double found : {0., 0., 0., 1., 0., double(NAN), 0., 0., 0.}) {
    auto one = dynamic_loss_scale_update(found != 0, scale, tracker, 3, 0.25);
    auto other =
        dynamic_loss_scale_update(at::tensor(found), scales, trackers, 3, 0.25);
    scale = one.loss_scale, tracker = one.growth_tracker;
    scales = other.loss_scale, trackers = other.growth_tracker;
    EXPECT_EQ(scales.item<double>(), scale);
    EXPECT_EQ(trackers.item<int64_t>(), tracker);
    walked.push_back(scale);
  }
  EXPECT_EQ(walked, (std::vector<double>{1024, 1024, 2048, 512, 512, 128, 128,
                                         128, 256}));
  auto most = dynamic_loss_scale_update(at::tensor(0.0f),
                                        at::tensor(std::ldexp(1.0f, 127)),
                                        at::tensor(int32_t(9)), 1);
  EXPECT_EQ(most.loss_scale.item<float>(), std::ldexp(1.0f, 127));
  EXPECT_EQ(most.growth_tracker.scalar_type(), at::kInt);
  EXPECT_THROW(dynamic_loss_scale_update(false, 8, 0, 0), c10::ValueError);
  EXPECT_THROW(dynamic_loss_scale_update(false, 8, 0, 3, 1), c10::ValueError);
}

} // namespace
