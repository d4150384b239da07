// Save, load, go on: the bits of a run that was never interrupted.
#include "Model.h"

#include <altgrad/optim.h>
#include <torch/serialize.h>

#include <gtest/gtest.h>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

template <typename From, typename To> void pass(const From &from, To &to) {
  std::stringstream file;
  torch::save(from, file);
  torch::load(to, file);
}

TEST(Resume, AdamWGivesTheSameBits) {
  Samples samples;
  Mlp whole, first, second;
  AdamW wholeRun(whole->parameters(), AdamWOptions(1e-2).amsgrad(true));
  train(whole, wholeRun, samples, 20);

  AdamW firstRun(first->parameters(), AdamWOptions(1e-2).amsgrad(true));
  train(first, firstRun, samples, 10);
  AdamW secondRun(second->parameters(), AdamWOptions(1.0));
  pass(first, second);
  pass(firstRun, secondRun);
  train(second, secondRun, samples, 10);
  EXPECT_TRUE(sameBits(whole->parameters(), second->parameters()));
  // The first optimizer is as it was.
  train(first, firstRun, samples, 10);
  EXPECT_TRUE(sameBits(whole->parameters(), first->parameters()));
}

TEST(Resume, AnyRuleGivesTheSameBits) {
  Samples samples;
  RuleSpec spec = RuleSpec("sgd").storage("buf=bf16");
  auto options = RuleOptions(1e-2).hyper("momentum", 0.9).option("momentum_on");
  Mlp whole, first, second;
  RuleOptimizer wholeRun(whole->parameters(), spec, options);
  train(whole, wholeRun, samples, 20);
  RuleOptimizer firstRun(first->parameters(), spec, options);
  train(first, firstRun, samples, 10);
  RuleOptimizer secondRun(second->parameters(), spec,
                          RuleOptions(1.0).option("momentum_on"));
  pass(first, second);
  pass(firstRun, secondRun);
  train(second, secondRun, samples, 10);
  EXPECT_TRUE(sameBits(whole->parameters(), second->parameters()));
}

// Seed and count of draws are in the file; a second optimizer had others.
TEST(Resume, StochasticRoundingGivesTheSameBits) {
  auto spec = [](std::optional<int64_t> seed) {
    return RuleSpec("sgd")
        .storage("param=bf16,stochastic buf=bf16,stochastic")
        .seed(seed);
  };
  auto options = RuleOptions(0.05).hyper("momentum", 0.9).option("momentum_on");
  auto begin = at::arange(3000, at::kFloat).div_(700).to(at::kBFloat16);
  auto run = [&](RuleOptimizer &optimizer, Tensor &param, int steps) {
    for (int step = 0; step < steps; ++step) {
      param.mutable_grad() = at::full_like(param, 0.01);
      optimizer.step();
    }
  };
  Tensor whole = begin.clone().requires_grad_(),
         first = begin.clone().requires_grad_(),
         other = begin.clone().requires_grad_();
  RuleOptimizer wholeRun({whole}, spec(7), options);
  run(wholeRun, whole, 6);
  RuleOptimizer firstRun({first}, spec(7), options);
  run(firstRun, first, 3);
  RuleOptimizer otherRun({other}, spec(8), options);
  run(otherRun, other, 6);
  EXPECT_FALSE(sameBits({whole}, {other}));
  Tensor second = first.detach().clone().requires_grad_();
  RuleOptimizer secondRun({second}, spec({}), options);
  pass(firstRun, secondRun);
  run(secondRun, second, 3);
  EXPECT_TRUE(sameBits({whole}, {second}));
}

TEST(Resume, ReadsAndWritesTorchsFiles) {
  Samples samples;
  Mlp torchs, ours, back;
  torch::optim::AdamW reference(torchs->parameters(), AdamWOptions(1e-2));
  train(torchs, reference, samples, 10);
  AdamW optimizer(ours->parameters());
  pass(torchs, ours);
  pass(reference, optimizer);
  train(ours, optimizer, samples, 5);
  torch::optim::AdamW again(back->parameters());
  pass(ours, back);
  pass(optimizer, again);
  train(back, again, samples, 5);
  train(torchs, reference, samples, 10);
  for (size_t i = 0; i < back->parameters().size(); ++i)
    EXPECT_TRUE(at::allclose(back->parameters()[i], torchs->parameters()[i],
                             1e-4, 1e-6));
}

// The states of a parameter without dimensions look like a count.
TEST(Resume, ParametersWithoutDimensions) {
  at::manual_seed(5);
  Tensor a = leaf({}), b = leaf({});
  AdamW first({a}), second({b});
  first.step();
  pass(first, second);
  b.set_data(a.detach().clone());
  b.mutable_grad() = a.grad().clone();
  first.step();
  second.step();
  EXPECT_TRUE(sameBits(a.detach(), b.detach()));
}

TEST(Resume, RefusesAnotherRulesFile) {
  Tensor a = leaf({3}), b = leaf({3}), b0 = b.detach().clone();
  RuleOptimizer lion({a}, "lion"), other({b}, "ademamix");
  lion.step();
  pass(lion, other);
  EXPECT_THROW(other.step(), c10::Error);
  EXPECT_TRUE(sameBits(b.detach(), b0));
}

} // namespace
