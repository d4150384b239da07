// Clips to a percentile of past norms, and to a share of each parameter's norm.
#include "Model.h"

#include <altgrad/amp.h>
#include <altgrad/optim.h>
#include <torch/serialize.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <gtest/gtest.h>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

RuleSpec percentile(double percent, const char *rule = "sgd") {
  return RuleSpec(rule).max_grad_norm(percent).clip("percentile");
}

// One tensor of `norm`, f32 and exact.
void give(Tensor &param, float norm) {
  param.mutable_grad() = at::zeros_like(param);
  param.mutable_grad().view(-1)[0] = norm;
}

// What a file has of it.
Tensor historyOf(const RuleOptimizer &optimizer) {
  std::stringstream file;
  torch::save(optimizer, file);
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  Tensor history;
  archive.read("norm_history", history, /*is_buffer=*/true);
  return history;
}

TEST(Clip, APercentileOfPastNormsBoundsTheNext) {
  Tensor param = at::zeros({3000}).requires_grad_();
  RuleOptimizer optimizer({param}, percentile(30), RuleOptions(1));
  std::deque<float> last;
  for (int step = 0; step < 130; ++step) {
    float norm = float(std::exp(3 * std::sin(step)));
    Tensor before = param.detach().clone();
    give(param, norm);
    optimizer.step();
    EXPECT_EQ(optimizer.last_grad_norm(), norm);
    last.push_back(norm);
    if (last.size() > 100)
      last.pop_front();
    std::vector<float> sorted(last.begin(), last.end());
    std::sort(sorted.begin(), sorted.end());
    float bound = sorted[sorted.size() * 30 / 100];
    float factor = norm > bound ? bound / norm : 1;
    EXPECT_EQ(param[0].item<float>(), before[0].item<float>() - norm * factor);
  }
}

TEST(Clip, AFileHasTheHistory) {
  Tensor first = leaf({40, 7}), second, other = leaf({40, 7});
  AdamW whole({first}, {}, percentile(50, "adamw"));
  std::vector<Tensor> grads;
  for (int step = 0; step < 12; ++step)
    grads.push_back(at::randn({40, 7}) * (step % 4 + 1));
  // A history of its own, which the file's replaces.
  AdamW next({other}, {}, percentile(50, "adamw"));
  next.step();
  std::stringstream file;
  for (int step = 0; step < 12; ++step) {
    if (step == 7) {
      torch::save(whole, file);
      torch::load(next, file);
      other.set_data(first.detach().clone());
    }
    first.mutable_grad() = other.mutable_grad() = grads[size_t(step)];
    whole.step();
    if (step >= 7)
      next.step();
  }
  EXPECT_TRUE(sameBits(first.detach(), other.detach()));
  EXPECT_TRUE(sameBits(historyOf(whole), historyOf(next)));
  EXPECT_EQ(historyOf(next)[0].item<float>(), 12);
}

TEST(Clip, ASkippedStepIsNoPartOfTheHistory) {
  Tensor param = at::zeros({5}).requires_grad_();
  RuleOptimizer optimizer({param}, percentile(0), RuleOptions(1));
  altgrad::amp::GradScaler scaler(
      altgrad::amp::GradScalerOptions().init_scale(1));
  for (float norm : {2.0f, INFINITY, 3.0f}) {
    give(param, norm);
    scaler.scale(at::zeros({}));
    scaler.step(optimizer);
    scaler.update();
  }
  // Both are clipped to 2: the least that there was.
  EXPECT_EQ(param[0].item<float>(), -4);
}

// Brock et al. 2021 with the whole tensor as the unit, in f64.
TEST(Clip, AgcBoundsEachGradientByItsParameter) {
  at::manual_seed(3);
  Tensor large = leaf({30, 20}), tiny = leaf({9}), still = leaf({4});
  {
    at::NoGradGuard disabled;
    tiny.mul_(1e-5);
    still.mutable_grad().mul_(1e-3);
  }
  std::vector<Tensor> params{large, tiny, still}, expected;
  for (const Tensor &param : params) {
    double size = param.detach().to(at::kDouble).norm().item<double>(),
           norm = param.grad().to(at::kDouble).norm().item<double>(),
           bound = 0.1 * std::max(size, 1e-3);
    double factor = norm > bound ? bound / std::max(norm, 1e-6) : 1;
    expected.push_back(param.detach() - param.grad() * factor);
  }
  RuleOptimizer optimizer(
      params, RuleSpec("sgd").max_grad_norm(0.1).clip("agc"), RuleOptions(1));
  optimizer.step();
  EXPECT_FALSE(optimizer.grad_norm().defined());
  for (size_t i = 0; i < params.size(); ++i)
    EXPECT_TRUE(at::allclose(params[i], expected[i], 1e-5, 1e-7)) << i;
}

// A part of dimension 0 is clipped as a parameter of its own is.
TEST(Clip, AUnitHasTheBitsOfAParameterOfItsOwn) {
  at::manual_seed(4);
  Tensor conv = leaf({5, 3, 2, 2}), bias = leaf({5});
  std::vector<Tensor> units{twin(bias)};
  for (int64_t i = 0; i < 5; ++i) {
    units.push_back(conv.detach()[i].clone().requires_grad_());
    units.back().mutable_grad() = conv.grad()[i].clone();
  }
  auto spec = RuleSpec("adamw").max_grad_norm(0.05);
  AdamW ours({conv, bias}, AdamWOptions(0.1), RuleSpec(spec).clip("agc-unit"));
  AdamW theirs(units, AdamWOptions(0.1), RuleSpec(spec).clip("agc"));
  for (int step = 0; step < 3; ++step) {
    ours.step();
    theirs.step();
  }
  EXPECT_FALSE(ours.grad_norm().defined());
  EXPECT_TRUE(sameBits(bias.detach(), units[0].detach()));
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_TRUE(sameBits(conv.detach()[i], units[size_t(i) + 1].detach())) << i;
  auto &state = static_cast<RuleParamState &>(
      *ours.state().at(conv.unsafeGetTensorImpl()));
  EXPECT_EQ(state.tensor("step").item<double>(), 3);

  Tensor turned = at::randn({4, 6}).t().requires_grad_(), upright = turned.detach().contiguous().requires_grad_();
  for (Tensor param : {turned, upright}) {
    param.mutable_grad() = at::ones_like(param);
    AdamW({param}, {}, RuleSpec(spec).clip("agc-unit")).step();
  }
  EXPECT_TRUE(at::equal(turned, upright)) << "units are those of the tensor as the user sees it";
}

TEST(Clip, RefusesWhatIsNoBound) {
  std::vector<Tensor> params{leaf({4})};
  for (const RuleSpec &spec :
       {RuleSpec("sgd").max_grad_norm(1).clip("zclip"),
        RuleSpec("sgd").clip("agc"), percentile(101), percentile(-1),
        percentile(NAN), RuleSpec("sgd").max_grad_norm(-1).clip("agc")})
    EXPECT_THROW(RuleOptimizer(params, spec), c10::Error);
  RuleOptimizer optimizer(params, percentile(100));
  EXPECT_THROW(optimizer.set_max_grad_norm(100.5), c10::Error);
  optimizer.step();
}

TEST(Clip, RefusesAForeignHistory) {
  std::vector<Tensor> params{leaf({4})};
  RuleOptimizer optimizer(params, percentile(5));
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  archive.write("norm_history", at::zeros({100}), /*is_buffer=*/true);
  std::stringstream file;
  archive.save_to(file);
  torch::serialize::InputArchive back;
  back.load_from(file);
  EXPECT_THROW(optimizer.load(back), c10::Error);
  optimizer.step();
}

} // namespace
