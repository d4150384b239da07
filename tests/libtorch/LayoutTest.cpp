// Extents and places in a rule are those of the tensor as the user sees it; a step is that of the gradients which are there.
#include "Model.h"

#include <altgrad/optim.h>
#include <torch/serialize.h>

#include <gtest/gtest.h>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

std::string ruleBy(const std::string &by) {
  return "altgrad.rule @placed(param %w: f32, grad %g: f32, state %m: f32, hyper %lr: f64 = 0.125) {\n" + by +
         "\n  %n = addf %m, %g : f32\n  %rate = truncf %lr : f64 to f32\n  %d = mulf %rate, %by : f32\n"
         "  %w1 = math.fma %d, %n, %w : f32\n  altgrad.yield param(%w1) state(%n)\n}\n";
}

// Steps a parameter and its contiguous twin.
void expectTwins(const RuleSpec &spec, const Tensor &laid) {
  Tensor param = laid.detach().requires_grad_(), twin = laid.detach().contiguous().requires_grad_();
  ASSERT_FALSE(param.is_contiguous());
  RuleOptimizer one({param}, spec), other({twin}, spec);
  for (int step = 0; step < 3; ++step) {
    Tensor grad = at::randn(laid.sizes()).to(laid.scalar_type());
    if (step == 1) // as a sum's backward gives it
      grad = grad.flatten()[0].expand(laid.sizes());
    param.mutable_grad() = grad;
    twin.mutable_grad() = grad.clone();
    one.step();
    other.step();
  }
  EXPECT_TRUE(at::equal(param, twin)) << spec.text();
}

TEST(Layout, RulesSeeWhatTheUserSees) {
  at::manual_seed(3);
  const std::vector<Tensor> laid = {at::randn({96, 64}).t(), at::randn({8, 6, 32, 3}).permute({0, 3, 2, 1}),
                                    at::randn({32, 64, 3, 4}).contiguous(at::MemoryFormat::ChannelsLast)};
  for (const char *by : {"%r = altgrad.dim rows : i64\n  %by = sitofp %r : i64 to f32",
                         "%i = altgrad.index : i64\n  %by = sitofp %i : i64 to f32",
                         "%s = altgrad.scale_by_shape original : f64\n  %by = truncf %s : f64 to f32",
                         "%by = altgrad.reduce sumsq %g over unit : f32",
                         "%by = altgrad.reduce sumsq %g over block<1x32> : f32"})
    for (const Tensor &param : laid)
      expectTwins(RuleSpec().text(ruleBy(by)), param);
  for (const Tensor &param : laid)
    expectTwins(RuleSpec("sgd").storage("param=bf16,stochastic").seed(1), param.to(at::kBFloat16));
  expectTwins(RuleSpec("muon"), laid[0]);
}

struct Life {
  RuleSpec spec;
  std::vector<Tensor> params;
  std::unique_ptr<RuleOptimizer> optimizer = std::make_unique<RuleOptimizer>(params, spec, RuleOptions(0.01));

  void resume() {
    std::stringstream file;
    torch::save(*optimizer, file);
    optimizer = std::make_unique<RuleOptimizer>(params, spec, RuleOptions(0.01));
    torch::load(*optimizer, file);
  }
};

std::vector<Tensor> weightAndNorm() {
  at::manual_seed(5);
  return {leaf({16, 16}, at::kBFloat16), leaf({16})};
}

// Bit i of a turn: whether parameter i has a gradient.
void expectAsGoneOn(const RuleSpec &spec, const std::vector<int> &turns) {
  Life on{spec, weightAndNorm()}, resumed{spec, weightAndNorm()};
  for (int turn : turns) {
    resumed.resume();
    for (size_t i = 0; i < 2; ++i) {
      const Tensor grad = at::randn(on.params[i].sizes()).to(on.params[i].scalar_type());
      for (Life *life : {&on, &resumed})
        life->params[i].mutable_grad() = turn >> i & 1 ? grad.clone() : Tensor();
    }
    on.optimizer->step();
    resumed.optimizer->step();
  }
  for (size_t i = 0; i < 2; ++i)
    EXPECT_TRUE(sameBits(on.params[i].detach(), resumed.params[i].detach())) << i;
}

TEST(Layout, StepsAreThoseOfTheGradientsThatAreThere) {
  const std::vector<std::vector<int>> lives = {{3, 2, 3}, {3, 2, 1, 2, 3}, {2, 3, 1, 3}, {3, 0, 3, 2}};
  for (const std::vector<int> &turns : lives) {
    expectAsGoneOn(RuleSpec("adamw").storage("param=bf16,stochastic").seed(1), turns);
    expectAsGoneOn(RuleSpec("adamw").profile("torch").max_grad_norm(0.5), turns);
    expectAsGoneOn(RuleSpec("adamw").max_grad_norm(0.5).storage("master=f32"), turns);
  }
}

// One that is frozen beside the table and in a file is the same.
TEST(Layout, FrozenParametersDrawNothing) {
  auto spec = RuleSpec("adamw").storage("param=bf16,stochastic").seed(1);
  Life on{spec, weightAndNorm()}, resumed{spec, weightAndNorm()};
  for (int step = 0; step < 3; ++step)
    for (Life *life : {&on, &resumed}) {
      life->params[0].set_requires_grad(step != 1);
      life->params[0].mutable_grad() = step == 1 ? Tensor() : at::full({16, 16}, 0.01).to(at::kBFloat16);
      if (life == &resumed)
        life->resume();
      life->optimizer->step();
    }
  EXPECT_TRUE(sameBits(on.params[0].detach(), resumed.params[0].detach()));
}

TEST(Layout, NarrowerStatesBecomeAsWideAsTheStorageSays) {
  Tensor param = leaf({64}, at::kBFloat16);
  RuleOptimizer pure({param}, "adamw"), mastered({param}, RuleSpec("adamw").storage("master=f32"));
  pure.step();
  for (auto &[key, state] : pure.state())
    mastered.state()[key] = state->clone();
  auto &states = static_cast<RuleParamState &>(*mastered.state().at(param.unsafeGetTensorImpl()));
  const Tensor moment = states.tensor("v").to(at::kDouble);
  states.tensor("master", param.detach().to(at::kFloat));
  mastered.step();
  EXPECT_EQ(states.tensor("v").scalar_type(), at::kFloat);
  const Tensor grad = param.grad().to(at::kDouble);
  EXPECT_TRUE(at::allclose(states.tensor("v").to(at::kDouble), 0.999 * moment + 0.001 * grad * grad, 1e-6, 1e-9));
}

} // namespace
