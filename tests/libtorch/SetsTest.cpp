// One program for all kinds of parameters: types, options, groups, and many
// rows.
#include "Model.h"

#include <altgrad/optim.h>

#include <gtest/gtest.h>

using namespace altgrad::tests;
using namespace altgrad::optim;
using torch::optim::OptimizerParamGroup;

namespace {

std::vector<OptimizerParamGroup>
grouped(const std::vector<Tensor> &params,
        const std::vector<AdamWOptions> &options) {
  std::vector<OptimizerParamGroup> groups;
  for (size_t g = 0; g < options.size(); ++g) {
    std::vector<Tensor> own;
    for (size_t i = g; i < params.size(); i += options.size())
      own.push_back(params[i]);
    groups.emplace_back(own, std::make_unique<AdamWOptions>(options[g]));
  }
  return groups;
}

// More rows than one thread looks at, of two types, with and without amsgrad,
// in groups that cross both. torch computes in the parameter's type: it gets
// floats.
TEST(Sets, ManyTensorsOfManyKindsLikeTorchs) {
  at::manual_seed(12);
  std::vector<Tensor> ours, torchs;
  for (int64_t i = 0; i < 701; ++i) {
    ours.push_back(leaf({i % 7, i % 11 + 1}, i % 3 ? at::kFloat : at::kHalf));
    torchs.push_back(
        ours.back().detach().to(at::kFloat, false, true).requires_grad_());
  }
  std::vector<AdamWOptions> options{
      AdamWOptions(1e-2), AdamWOptions(2e-2).amsgrad(true),
      AdamWOptions(3e-2).weight_decay(0.3), AdamWOptions(4e-2).amsgrad(true)};
  for (AdamWOptions &group : options)
    group.eps(0.1); // v of a half may vanish
  AdamW optimizer(grouped(ours, options));
  torch::optim::AdamW reference(grouped(torchs, options));
  for (int step = 0; step < 3; ++step) {
    for (size_t i = 0; i < ours.size(); ++i) {
      ours[i].mutable_grad() = at::randn_like(ours[i].detach());
      torchs[i].mutable_grad() = ours[i].grad().to(at::kFloat);
    }
    optimizer.step();
    reference.step();
  }
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i].to(at::kFloat), torchs[i],
                             i % 3 ? 1e-5 : 2e-3, i % 3 ? 1e-6 : 1e-3))
        << "parameter " << i;
}

// What one kind does does not depend on the others beside it.
TEST(Sets, BytesOfAKindAreThoseOfAnOptimizerOfItsOwn) {
  at::manual_seed(13);
  std::vector<Tensor> all{leaf({4097}), leaf({33}, at::kBFloat16), leaf({5, 7}),
                          leaf({8200}, at::kBFloat16)},
      narrow, wide;
  for (const Tensor &param : all)
    (param.scalar_type() == at::kFloat ? wide : narrow).push_back(twin(param));
  RuleSpec spec = RuleSpec("adamw").storage("master=f32");
  AdamW together(all, {}, spec), first(wide, {}, spec),
      second(narrow, {}, spec);
  for (int step = 0; step < 3; ++step)
    for (AdamW *optimizer : {&together, &first, &second})
      optimizer->step();
  EXPECT_TRUE(sameBits({all[0].detach(), all[2].detach()},
                       {wide[0].detach(), wide[1].detach()}));
  EXPECT_TRUE(sameBits({all[1].detach(), all[3].detach()},
                       {narrow[0].detach(), narrow[1].detach()}));
}

TEST(Sets, ParametersThatComeAndGo) {
  at::manual_seed(14);
  Tensor a = leaf({40}), b = leaf({33}, at::kBFloat16);
  Tensor grad = b.grad(), b0 = b.detach().clone();
  b.mutable_grad() = Tensor();
  AdamW optimizer({a, b}, {}, RuleSpec("adamw").max_grad_norm(1e9));
  optimizer.step();
  double norm = a.grad().norm().item<double>();
  EXPECT_NEAR(optimizer.last_grad_norm() / norm, 1, 1e-6);
  EXPECT_TRUE(sameBits(b.detach(), b0));
  b.mutable_grad() = grad;
  optimizer.step();
  EXPECT_FALSE(sameBits(b.detach(), b0));
  norm = at::cat({a.grad(), grad.to(at::kFloat)}).norm().item<double>();
  EXPECT_NEAR(optimizer.last_grad_norm() / norm, 1, 1e-6);
  a.mutable_grad() = b.mutable_grad() = Tensor();
  optimizer.step();
  a.mutable_grad() = at::ones({40});
  optimizer.step();
}

TEST(Sets, AThousandGroupsAndTheirOptionsAsTheyChange) {
  at::manual_seed(15);
  std::vector<Tensor> ours, torchs;
  std::vector<AdamWOptions> options;
  for (int i = 0; i < 1000; ++i) {
    ours.push_back(leaf({3}));
    torchs.push_back(twin(ours.back()));
    options.push_back(AdamWOptions(1e-5 * (i + 1)));
  }
  AdamW optimizer(grouped(ours, options));
  torch::optim::AdamW reference(grouped(torchs, options));
  for (int step = 0; step < 4; ++step) {
    for (torch::optim::Optimizer *each :
         {static_cast<torch::optim::Optimizer *>(&optimizer),
          static_cast<torch::optim::Optimizer *>(&reference)}) {
      auto &groups = each->param_groups();
      if (step == 1)
        groups[700].options().set_lr(0.5);
      if (step == 2)
        groups[3].set_options(std::make_unique<AdamWOptions>(0.25));
      if (step == 3)
        static_cast<AdamWOptions &>(groups[999].options()).weight_decay(0.5);
      each->step();
    }
  }
  for (size_t i = 0; i < ours.size(); ++i)
    EXPECT_TRUE(at::allclose(ours[i], torchs[i], 1e-5, 1e-6)) << "group " << i;
}

TEST(Sets, OptionsOfARuleAreReadWhenTheyChange) {
  Tensor a = at::zeros({2}).requires_grad_(),
         b = at::zeros({2}).requires_grad_();
  a.mutable_grad() = at::ones({2});
  b.mutable_grad() = at::ones({2});
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{a});
  groups.emplace_back(std::vector<Tensor>{b},
                      std::make_unique<RuleOptions>(0.5));
  RuleOptimizer optimizer(groups, "sgd", RuleOptions(1.0));
  auto expect = [&](double wantA, double wantB) {
    optimizer.step();
    EXPECT_EQ(a[0].item<double>(), wantA);
    EXPECT_EQ(b[0].item<double>(), wantB);
  };
  auto options = [&](int g) -> RuleOptions & {
    return static_cast<RuleOptions &>(optimizer.param_groups()[g].options());
  };
  expect(-1, -0.5);
  options(1).set_lr(2);
  expect(-2, -2.5);
  options(0) = RuleOptions(4).hyper("decay", 0).hyper("momentum", 0);
  expect(-6, -4.5);
  options(1).option("maximize");
  expect(-10, -2.5);
}

// The element that was clamped is taken over, and the others keep the bits that
// bf16 has no room for.
TEST(Sets, AnEditOfAParameterReachesItsMaster) {
  at::manual_seed(16);
  Tensor param = leaf({64}, at::kBFloat16);
  RuleOptimizer optimizer({param}, RuleSpec("sgd").storage("master=f32"),
                          RuleOptions(1e-3));
  optimizer.step();
  auto master = [&] {
    return static_cast<RuleParamState &>(
               *optimizer.state().at(param.unsafeGetTensorImpl()))
        .tensor("master");
  };
  Tensor before = master().clone();
  {
    at::NoGradGuard none;
    param.clamp_(-0.5, 0.5);
  }
  optimizer.param_groups()[0].options().set_lr(0);
  optimizer.step();
  Tensor kept = before.to(at::kBFloat16).abs() <= 0.5;
  EXPECT_FALSE(kept.all().item<bool>());
  EXPECT_TRUE(
      at::equal(master().masked_select(kept), before.masked_select(kept)));
  EXPECT_TRUE(at::equal(master().masked_select(~kept).abs(),
                        at::full({(~kept).sum().item<int64_t>()}, 0.5)));
  EXPECT_TRUE(sameBits(master().to(at::kBFloat16), param.detach()));
}

TEST(Sets, AutogradIsToldOfStates) {
  Tensor param = leaf({4});
  AdamW optimizer({param});
  optimizer.step();
  auto &state = static_cast<RuleParamState &>(
      *optimizer.state().at(param.unsafeGetTensorImpl()));
  for (auto &[name, tensor] : state.tensors()) {
    int64_t version = tensor._version();
    optimizer.step();
    EXPECT_EQ(tensor._version(), version + 1) << name;
  }
}

} // namespace
