// altgrad::optim::AdamW beside torch::optim::AdamW.
#include "Model.h"

#include <altgrad/optim.h>
#include <torch/nn/utils/clip_grad.h>
#include <torch/optim/schedulers/step_lr.h>

#include <cmath>
#include <gtest/gtest.h>

using namespace altgrad::tests;
using altgrad::optim::AdamW;
using altgrad::optim::AdamWOptions;
using altgrad::optim::RuleParamState;
using altgrad::optim::RuleSpec;
using torch::optim::OptimizerParamGroup;

namespace {

const Tensor &stateOf(AdamW &optimizer, const Tensor &param, const char *name) {
  auto &state = optimizer.state().at(param.unsafeGetTensorImpl());
  return static_cast<RuleParamState &>(*state).tensor(name);
}

// The largest distance of two f32 results, in units of the last place of
// max(|old|, |new|).
double distance(const Tensor &old, const Tensor &a, const Tensor &b) {
  double most = 0;
  auto *o = old.const_data_ptr<float>(), *x = a.const_data_ptr<float>(),
       *y = b.const_data_ptr<float>();
  for (int64_t i = 0; i < old.numel(); ++i) {
    float scale =
        std::max(std::fabs(o[i]), std::max(std::fabs(x[i]), std::fabs(y[i])));
    double unit = std::nextafter(scale, INFINITY) - scale;
    most = std::max(most, std::fabs(double(x[i]) - y[i]) / unit);
  }
  return most;
}

TEST(AdamW, TrainsLikeTorch) {
  Samples samples;
  Mlp ours, torchs;
  AdamW optimizer(ours->parameters(), AdamWOptions(1e-2).weight_decay(0.1));
  torch::optim::AdamW reference(torchs->parameters(),
                                AdamWOptions(1e-2).weight_decay(0.1));
  auto a = train(ours, optimizer, samples, 150);
  auto b = train(torchs, reference, samples, 150);
  EXPECT_LT(a.back(), 0.3 * a.front());
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], 1e-3 * b.front()) << "step " << i;
}

TEST(AdamW, OneStepWithinTheBound) {
  for (bool amsgrad : {false, true}) {
    at::manual_seed(1);
    std::vector<Tensor> ours{leaf({37, 19}), leaf({5}), leaf({})}, torchs, old;
    for (const Tensor &param : ours) {
      torchs.push_back(twin(param));
      old.push_back(param.detach().clone());
    }
    AdamW optimizer(ours, AdamWOptions().amsgrad(amsgrad));
    torch::optim::AdamW reference(torchs, AdamWOptions().amsgrad(amsgrad));
    optimizer.step();
    reference.step();
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_LE(distance(old[i], ours[i].detach(), torchs[i].detach()), 8);
      auto &state = static_cast<torch::optim::AdamWParamState &>(
          *reference.state().at(torchs[i].unsafeGetTensorImpl()));
      Tensor zero = at::zeros_like(old[i]);
      EXPECT_LE(distance(zero, stateOf(optimizer, ours[i], "exp_avg"),
                         state.exp_avg()),
                2);
      EXPECT_LE(distance(zero, stateOf(optimizer, ours[i], "exp_avg_sq"),
                         state.exp_avg_sq()),
                2);
      EXPECT_EQ(stateOf(optimizer, ours[i], "max_exp_avg_sq").defined(),
                amsgrad);
      EXPECT_EQ(stateOf(optimizer, ours[i], "step").item<int64_t>(), 1);
    }
  }
}

TEST(AdamW, EqualsTorchsFusedKernel) {
  at::manual_seed(2);
  Tensor ours = leaf({64, 1024}), other = twin(ours).detach();
  Tensor m = at::zeros_like(other), v = at::zeros_like(other);
  Tensor t = at::zeros({});
  AdamW optimizer({ours}, AdamWOptions(1e-3));
  for (int i = 0; i < 5; ++i) {
    Tensor grad = at::randn_like(other);
    ours.mutable_grad() = grad;
    t += 1;
    at::_fused_adamw_({other}, {grad}, {m}, {v}, {}, {t}, 1e-3, 0.9, 0.999,
                      1e-2, 1e-8, false, false);
    optimizer.step();
    ASSERT_TRUE(sameBits(ours.detach(), other)) << "step " << i;
  }
}

TEST(AdamW, KeepsHalfPrecisionParameters) {
  for (auto type : {at::kBFloat16, at::kHalf}) {
    at::manual_seed(4);
    Tensor ours = leaf({1000}, type), wide = twin(ours.detach().to(at::kFloat));
    AdamW optimizer({ours}, AdamWOptions(1e-2));
    wide.mutable_grad() = ours.grad().to(at::kFloat);
    torch::optim::AdamW reference({wide}, AdamWOptions(1e-2));
    optimizer.step();
    reference.step();
    EXPECT_EQ(ours.scalar_type(), type);
    EXPECT_EQ(stateOf(optimizer, ours, "exp_avg").scalar_type(), type);
    // The step is in f32 and rounded once: half a place of bf16 or f16.
    double half = type == at::kHalf ? std::ldexp(1, -11) : std::ldexp(1, -8);
    EXPECT_TRUE(
        at::allclose(ours.detach().to(at::kFloat), wide.detach(), half, 1e-6));
  }
}

TEST(AdamW, MixesTypesAndStoresStatesAsAsked) {
  at::manual_seed(5);
  Tensor a = leaf({100}), b = leaf({200}, at::kBFloat16), before = twin(b);
  AdamW optimizer({a, b}, {}, RuleSpec("adamw").storage("m=bf16 master=f32"));
  optimizer.step();
  for (const Tensor &param : {a, b}) {
    EXPECT_EQ(stateOf(optimizer, param, "exp_avg").scalar_type(),
              at::kBFloat16);
    EXPECT_EQ(stateOf(optimizer, param, "exp_avg_sq").scalar_type(),
              at::kFloat) << "beside a master";
    EXPECT_TRUE(
        sameBits(stateOf(optimizer, param, "master").to(param.scalar_type()),
                 param.detach()));
  }
  EXPECT_FALSE(sameBits(b.detach(), before.detach()));
}

TEST(AdamW, GivesGroupsTheirOwnOptions) {
  Samples samples;
  auto groupsOf = [](Mlp &model) {
    std::vector<OptimizerParamGroup> groups;
    groups.emplace_back(model->first->parameters(),
                        std::make_unique<AdamWOptions>(1e-2));
    groups.emplace_back(
        model->second->parameters(),
        std::make_unique<AdamWOptions>(
            AdamWOptions(3e-3).betas({0.8, 0.95}).weight_decay(0.5)));
    return groups;
  };
  Mlp ours, torchs;
  AdamW optimizer(groupsOf(ours));
  torch::optim::AdamW reference(groupsOf(torchs));
  train(ours, optimizer, samples, 20);
  train(torchs, reference, samples, 20);
  for (size_t i = 0; i < ours->parameters().size(); ++i)
    EXPECT_TRUE(at::allclose(ours->parameters()[i], torchs->parameters()[i],
                             1e-4, 1e-6));
}

TEST(AdamW, FollowsASchedulerAndNewGroups) {
  at::manual_seed(6);
  Tensor ours = leaf({33}), torchs = twin(ours), late = leaf({5});
  Tensor lateTwin = twin(late);
  AdamW optimizer({ours}, AdamWOptions(1e-2));
  torch::optim::AdamW reference({torchs}, AdamWOptions(1e-2));
  torch::optim::StepLR schedule(optimizer, 2, 0.5), other(reference, 2, 0.5);
  for (int i = 0; i < 8; ++i) {
    if (i == 4) {
      optimizer.add_param_group(OptimizerParamGroup({late}));
      reference.add_param_group(OptimizerParamGroup({lateTwin}));
    }
    optimizer.step();
    reference.step();
    schedule.step();
    other.step();
  }
  double lr = optimizer.param_groups()[0].options().get_lr();
  EXPECT_LT(lr, 2e-3);
  EXPECT_EQ(lr, reference.param_groups()[0].options().get_lr());
  EXPECT_TRUE(at::allclose(ours, torchs, 1e-5, 1e-7));
  EXPECT_TRUE(at::allclose(late, lateTwin, 1e-5, 1e-7));
}

TEST(AdamW, ClipsByTheGlobalNorm) {
  at::manual_seed(8);
  std::vector<Tensor> ours{leaf({70, 90}), leaf({11})}, torchs;
  for (const Tensor &param : ours)
    torchs.push_back(twin(param));
  AdamW optimizer(ours, AdamWOptions(1e-2).eps(1e-2),
                  RuleSpec("adamw").max_grad_norm(0.5));
  torch::optim::AdamW reference(torchs, AdamWOptions(1e-2).eps(1e-2));
  for (double most : {0.5, 1e6}) {
    optimizer.set_max_grad_norm(most);
    double norm = torch::nn::utils::clip_grad_norm_(torchs, most);
    optimizer.step();
    reference.step();
    EXPECT_NEAR(optimizer.last_grad_norm() / (most == 0.5 ? norm : 1),
                most == 0.5 ? 1 : optimizer.last_grad_norm(), 1e-5);
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(at::allclose(ours[i], torchs[i], 1e-5, 1e-6));
      torchs[i].mutable_grad() = ours[i].grad().clone();
    }
  }
}

TEST(AdamW, SkipsWhatHasNoGradient) {
  Tensor a = leaf({10}), b = leaf({10}), b0 = b.detach().clone();
  b.mutable_grad() = Tensor();
  AdamW optimizer({a, b}, AdamWOptions(1e-2));
  optimizer.step();
  EXPECT_EQ(optimizer.state().size(), 1);
  EXPECT_TRUE(sameBits(b.detach(), b0));
  b.mutable_grad() = at::ones({10});
  optimizer.step();
  EXPECT_EQ(stateOf(optimizer, a, "step").item<int64_t>(), 2);
  EXPECT_EQ(stateOf(optimizer, b, "step").item<int64_t>(), 1);
  a.mutable_grad() = Tensor();
  optimizer.step();
  EXPECT_EQ(stateOf(optimizer, a, "step").item<int64_t>(), 2);
  EXPECT_EQ(stateOf(optimizer, b, "step").item<int64_t>(), 2);
  AdamW empty(std::vector<Tensor>{});
  empty.step();
}

TEST(AdamW, RunsAClosureAndTellsAutograd) {
  Tensor param = leaf({4});
  AdamW optimizer({param});
  int64_t before = param._version();
  Tensor value = optimizer.step([&] {
    optimizer.zero_grad();
    Tensor sum = (param * param).sum();
    sum.backward();
    return sum;
  });
  EXPECT_TRUE(value.requires_grad());
  EXPECT_EQ(param._version(), before + 1);
  Tensor saved = (param * param).sum();
  optimizer.step();
  EXPECT_THROW(saved.backward(), c10::Error);
}

} // namespace
