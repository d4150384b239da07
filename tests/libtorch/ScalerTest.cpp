// altgrad::amp::GradScaler: one program with our optimizers, torch's ways with
// others.
#include "Model.h"

#include <altgrad/amp.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/serialize.h>

using namespace altgrad::tests;
using altgrad::amp::GradScaler;
using altgrad::amp::GradScalerOptions;
using altgrad::optim::RuleOptimizer;
using altgrad::optim::RuleOptions;
using altgrad::optim::RuleSpec;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

GradScalerOptions small() {
  return GradScalerOptions().init_scale(8).growth_interval(2);
}

// One scaled backward: every gradient is 3 times the scale, or not finite.
void backward(GradScaler &scaler, const Tensor &param, bool spoiled) {
  param.mutable_grad() = Tensor();
  scaler.scale((param * 3).sum()).backward();
  if (spoiled)
    param.mutable_grad().view(-1)[0] = infinite;
}

TEST(GradScaler, SkipsAndFollowsWhatItFinds) {
  Tensor param = leaf({4100}), before = param.detach().clone();
  RuleOptimizer optimizer({param}, "sgd", RuleOptions(0.5));
  GradScaler scaler(small());
  std::vector<double> scales;
  for (bool spoiled : {false, false, true, false}) {
    backward(scaler, param, spoiled);
    Tensor kept = param.grad().clone();
    scaler.step(optimizer);
    EXPECT_TRUE(sameBits(kept, param.grad()));
    scaler.update();
    scales.push_back(scaler.get_scale());
  }
  EXPECT_EQ(scales, (std::vector<double>{8, 16, 8, 8}));
  EXPECT_EQ(scaler.get_growth_tracker(), 1);
  EXPECT_EQ(optimizer.skipped_steps().item<int64_t>(), 1);
  EXPECT_TRUE(at::allclose(param.detach(), before - 4.5));
}

// unscale_ and clip_grad_norm_ round to bf16, the norm and the coefficient, too.
TEST(GradScaler, RoundsAsTorchDoesWhereItIsAskedTo) {
  Tensor param = leaf({515}, at::kBFloat16), before = param.detach().clone();
  RuleOptimizer optimizer({param},
                          RuleSpec("sgd").max_grad_norm(2.0).profile("torch"),
                          RuleOptions(1.0));
  GradScaler scaler(GradScalerOptions().init_scale(3000));
  backward(scaler, param, false);
  param.mutable_grad() = (3000 * at::randn({515})).to(at::kBFloat16);
  scaler.step(optimizer);
  Tensor inverse = at::tensor(3000.0).to(at::kDouble).reciprocal();
  Tensor grad = (param.grad().to(at::kFloat) * inverse.to(at::kFloat))
                    .to(at::kBFloat16);
  Tensor norm = grad.norm();
  EXPECT_EQ(norm.item<float>(), float(optimizer.last_grad_norm()));
  grad.mul_(((norm + 1e-6).reciprocal() * 2.0).clamp_max(1.0));
  EXPECT_TRUE(sameBits(before - grad, param.detach()));
}

TEST(GradScaler, ClipsWhatIsUnscaled) {
  Tensor param = leaf({4}), before = param.detach().clone();
  RuleOptimizer optimizer({param}, RuleSpec("sgd").max_grad_norm(2.0),
                          RuleOptions(1.0));
  GradScaler scaler(small());
  backward(scaler, param, false);
  scaler.step(optimizer);
  EXPECT_FLOAT_EQ(float(optimizer.last_grad_norm()), 6.0f);
  EXPECT_TRUE(at::allclose(param.detach(), before - 1.0));
}

TEST(GradScaler, SharesAScaleAmongOptimizersOfBothKinds) {
  for (int spoiled : {-1, 0, 1, 2}) {
    std::vector<Tensor> params{leaf({5}), leaf({6}), leaf({7})}, before;
    for (const Tensor &param : params)
      before.push_back(param.detach().clone());
    RuleOptimizer one({params[0]}, "sgd", RuleOptions(0.1));
    torch::optim::SGD two({params[1]}, 0.1);
    RuleOptimizer three({params[2]}, "sgd", RuleOptions(0.1));
    GradScaler scaler(small().growth_interval(1));
    for (int i = 0; i < 3; ++i)
      backward(scaler, params[size_t(i)], i == spoiled);
    scaler.unscale_(three);
    EXPECT_TRUE(spoiled == 2 ||
                at::allclose(params[2].grad(), at::full({7}, 3.0)));
    for (torch::optim::Optimizer *of :
         std::initializer_list<torch::optim::Optimizer *>{&one, &two, &three})
      scaler.step(*of);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), spoiled < 0 ? 16 : 4);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(sameBits(params[size_t(i)].detach(), before[size_t(i)]),
                i == spoiled);
  }
}

TEST(GradScaler, RefusesWhatIsOutOfOrder) {
  Tensor param = leaf({5});
  RuleOptimizer optimizer({param}, "sgd", RuleOptions(0.1));
  GradScaler scaler(small());
  EXPECT_THROW(scaler.step(optimizer), c10::Error);
  backward(scaler, param, false);
  EXPECT_THROW(scaler.update(), c10::Error);
  scaler.unscale_(optimizer);
  EXPECT_THROW(scaler.unscale_(optimizer), c10::Error);
  scaler.step(optimizer);
  EXPECT_THROW(scaler.step(optimizer), c10::Error);
  EXPECT_THROW(scaler.unscale_(optimizer), c10::Error);
  EXPECT_THROW(scaler.update(0.0), c10::Error);
  scaler.update(32.0);
  EXPECT_EQ(scaler.get_scale(), 32);
  for (const GradScalerOptions &bad :
       {small().init_scale(0), small().growth_factor(1), small().hysteresis(0),
        small().backoff_factor(1), small().growth_interval(0),
        small().min_scale(2).max_scale(1), small().variant("apex")})
    EXPECT_THROW((GradScaler(bad)), c10::Error);
}

// What `from` saves goes into `to`.
void passThroughFile(const GradScaler &from, GradScaler &to) {
  std::stringstream file;
  torch::serialize::OutputArchive out;
  from.save(out);
  out.save_to(file);
  torch::serialize::InputArchive in;
  in.load_from(file);
  to.load(in);
}

TEST(GradScaler, GoesOnFromAFile) {
  Tensor param = leaf({5});
  RuleOptimizer optimizer({param}, "sgd", RuleOptions(0.1));
  GradScaler first(small()), second(GradScalerOptions().growth_interval(2));
  for (bool spoiled : {true, false}) {
    backward(first, param, spoiled);
    first.step(optimizer);
    first.update();
  }
  passThroughFile(first, second);
  EXPECT_EQ(second.get_scale(), 4);
  EXPECT_EQ(second.get_growth_tracker(), 1);
  backward(second, param, false);
  second.step(optimizer);
  second.update();
  EXPECT_EQ(second.get_scale(), 8);
}

TEST(GradScaler, PassesThroughWhereItIsDisabled) {
  Tensor param = leaf({5}), before = param.detach().clone();
  RuleOptimizer optimizer({param}, "sgd", RuleOptions(0.5));
  GradScaler scaler(small().enabled(false));
  backward(scaler, param, false);
  scaler.unscale_(optimizer);
  scaler.step(optimizer);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 1);
  EXPECT_TRUE(at::allclose(param.detach(), before - 1.5));
}

TEST(GradScaler, CountsASkipOfWhatWasUnscaledBefore) {
  Tensor param = leaf({5});
  RuleOptimizer optimizer({param}, "sgd", RuleOptions(0.1));
  GradScaler scaler(small());
  for (bool unscaled : {true, false, true}) {
    backward(scaler, param, /*spoiled=*/true);
    if (unscaled)
      scaler.unscale_(optimizer);
    scaler.step(optimizer);
    scaler.update();
  }
  EXPECT_EQ(optimizer.skipped_steps().item<int64_t>(), 3);
}

// A program saves whatever it has: before the first loss, and where nothing is
// scaled.
TEST(GradScaler, SavesAtAnyTime) {
  for (bool enabled : {true, false}) {
    GradScaler first(small().enabled(enabled).hysteresis(3)),
        second(GradScalerOptions().enabled(enabled));
    passThroughFile(first, second);
    EXPECT_EQ(second.get_scale(), first.get_scale());
  }
}

TEST(GradScaler, MayBeginInInferenceMode) {
  Tensor param = leaf({5});
  RuleOptimizer optimizer({param}, "sgd", RuleOptions(0.1));
  GradScaler scaler(small());
  {
    c10::InferenceMode inference;
    scaler.scale(at::ones({}));
  }
  backward(scaler, param, true);
  scaler.step(optimizer);
  scaler.update();
  EXPECT_EQ(scaler.get_scale(), 4);
}

// As torch: the numbers are others, the round goes on.
TEST(GradScaler, AFileLoadedBeforeUpdateKeepsWhatTheStepFound) {
  for (bool spoiled : {false, true}) {
    std::stringstream file;
    torch::serialize::OutputArchive out;
    out.write("grad_scale", 64.0);
    out.write("growth_tracker", 1.0);
    out.write("hysteresis_tracker", 1.0);
    out.save_to(file);
    torch::serialize::InputArchive in;
    in.load_from(file);
    Tensor param = leaf({5});
    RuleOptimizer optimizer({param}, "sgd", RuleOptions(0.5));
    GradScaler scaler(small());
    backward(scaler, param, spoiled);
    scaler.step(optimizer);
    scaler.load(in);
    EXPECT_EQ(scaler.get_scale(), 64);
    EXPECT_THROW(scaler.step(optimizer), c10::Error);
    scaler.update();
    EXPECT_EQ(scaler.get_scale(), spoiled ? 32 : 128);
    EXPECT_EQ(scaler.get_growth_tracker(), 0);
  }
}

} // namespace
