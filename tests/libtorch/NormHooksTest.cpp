// norm_in_backward: the bits of the step that reads gradients twice, and when
// it has to.
#include "Model.h"

#include <altgrad/amp.h>
#include <altgrad/optim.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
#include <torch/serialize.h>

#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <sstream>
#include <thread>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

// GPUs sum in the step.
struct NormHooks : testing::Test {
  void SetUp() override {
    if (getenv("ALTGRAD_STANDS_FOR_CUDA"))
      GTEST_SKIP() << "kernels of GPUs";
  }
};

// Their gradients have 1 MB or more, but for the last one's.
const std::vector<std::vector<int64_t>> shapes{
    {300001}, {512, 520}, {262144}, {5, 3}};

RuleSpec clipped(const char *rule = "adamw") {
  return RuleSpec(rule).max_grad_norm(0.5);
}

size_t hooksOf(const Tensor &param) {
  return torch::autograd::impl::grad_accumulator(param)->post_hooks().size();
}

struct Warnings : c10::WarningHandler {
  void process(const c10::Warning &warning) override {
    texts.push_back(warning.msg());
  }
  std::vector<std::string> texts;
};

// Two optimizers with the same gradients, of which the first sums in backward.
struct Pair {
  explicit Pair(const RuleSpec &spec = clipped(),
                at::ScalarType type = at::kFloat)
      : guard(&said) {
    at::manual_seed(11);
    for (auto &shape : shapes)
      params[0].push_back(at::randn(shape).to(type).requires_grad_());
    for (const Tensor &param : params[0])
      params[1].push_back(twin(param));
    for (int side : {0, 1})
      optimizers[side] = std::make_unique<RuleOptimizer>(
          params[side], RuleSpec(spec).norm_in_backward(side == 0),
          RuleOptions(0.1));
  }

  void backward(double scale = 1) {
    std::vector<Tensor> weights;
    for (const Tensor &param : params[0])
      weights.push_back(at::randn_like(param));
    for (auto &side : params) {
      Tensor loss = at::zeros({}, side[0].options().requires_grad(false));
      for (size_t i = 0; i < side.size(); ++i)
        if (side[i].requires_grad())
          loss = loss + (side[i] * weights[i]).sum();
      (loss * scale).backward();
    }
  }

  void change(const std::function<void(std::vector<Tensor> &)> &function) {
    at::NoGradGuard disabled;
    for (auto &side : params)
      function(side);
  }

  // Whether both have the same bits after the step.
  bool step() {
    for (auto &optimizer : optimizers)
      optimizer->step();
    return areSame();
  }
  bool areSame() {
    bool same =
        sameBits(optimizers[0]->grad_norm(), optimizers[1]->grad_norm());
    for (size_t i = 0; i < params[0].size(); ++i)
      same &= sameBits(params[0][i].detach(), params[1][i].detach());
    for (auto &side : params)
      for (const Tensor &param : side)
        param.mutable_grad() = Tensor();
    return same;
  }

  std::vector<Tensor> params[2];
  std::unique_ptr<RuleOptimizer> optimizers[2];
  Warnings said;
  c10::WarningUtils::WarningHandlerGuard guard;
};

// A Pair that has made its first step, which sums everything itself.
struct Ready : Pair {
  explicit Ready(const RuleSpec &spec = clipped(),
                 at::ScalarType type = at::kFloat)
      : Pair(spec, type) {
    backward();
    EXPECT_TRUE(step());
  }
};

// Without a trace: only who reads this gradient in the step knows of it.
void hide(std::vector<Tensor> &params, size_t which = 0) {
  const_cast<float *>(params[which].grad().const_data_ptr<float>())[200000] =
      1e4f;
}

bool isTaken(Pair &pair, size_t which = 0) {
  pair.change([&](auto &params) { hide(params, which); });
  for (auto &optimizer : pair.optimizers)
    optimizer->step();
  return pair.optimizers[0]->last_grad_norm() < 5e3 &&
         pair.optimizers[1]->last_grad_norm() > 5e3;
}

TEST_F(NormHooks, BitsAreThoseOfTheStepThatReadsTwice) {
  for (const char *rule : {"adamw", "sgd", "lion"})
    for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      Pair pair(clipped(rule), type);
      for (int turn = 0; turn < 3; ++turn) {
        pair.backward();
        EXPECT_TRUE(pair.step()) << rule << turn;
      }
      EXPECT_TRUE(pair.said.texts.empty()) << pair.said.texts[0];
    }
}

TEST_F(NormHooks, LargeGradientsAreSummedFromTheSecondStepOn) {
  Pair pair;
  EXPECT_EQ(hooksOf(pair.params[0][0]), 0u);
  pair.backward();
  EXPECT_FALSE(isTaken(pair));
  EXPECT_EQ(hooksOf(pair.params[0][0]), 1u);
  EXPECT_EQ(hooksOf(pair.params[0][3]), 0u);
  for (size_t which : {0u, 1u, 2u}) {
    Ready ready;
    ready.backward();
    EXPECT_TRUE(isTaken(ready, which)) << which;
  }
}

TEST_F(NormHooks, OnlyWhatIsAccumulatedLastCounts) {
  Ready pair;
  for (int turn = 0; turn < 3; ++turn)
    pair.backward();
  EXPECT_TRUE(pair.step());
  pair.backward();
  pair.backward();
  EXPECT_TRUE(isTaken(pair));
}

TEST_F(NormHooks, AGradientChangedAfterwardsIsSummedAgain) {
  using Params = std::vector<Tensor> &;
  const std::function<void(Params)> changes[] = {
      [](Params p) { p[1].mutable_grad().mul_(2); },
      [](Params p) { p[1].mutable_grad().data().mul_(0.5); },
      [](Params p) { p[1].mutable_grad()[7].fill_(3); },
      [](Params p) { p[1].mutable_grad() = p[1].grad() * 2; },
      [](Params p) { p[1].mutable_grad().set_data(p[1].grad() + 1); },
      [](Params p) {
        p[1].mutable_grad() = at::ones({520, 512}).t();
      },
      [](Params p) { p[1].mutable_grad().zero_(); }};
  for (size_t i = 0; i < std::size(changes); ++i) {
    Ready pair;
    for (int turn = 0; turn < 2; ++turn) {
      pair.backward();
      pair.change(changes[i]);
      EXPECT_TRUE(pair.step()) << i;
    }
    ASSERT_EQ(pair.said.texts.size(), 1u) << i;
    EXPECT_NE(pair.said.texts[0].find("1 gradients were changed"),
              std::string::npos)
        << pair.said.texts[0];
    pair.backward();
    EXPECT_TRUE(isTaken(pair)) << i;
  }
}

TEST_F(NormHooks, AHookOfTheTensorThatChangesGradientsComesFirst) {
  struct Halve : torch::autograd::PostAccumulateGradHook {
    void operator()(const Tensor &param) override {
      at::NoGradGuard disabled;
      param.mutable_grad().mul_(0.5);
    }
  };
  Ready pair;
  for (auto &side : pair.params)
    torch::autograd::impl::set_post_acc_grad_hooks(side[1],
                                                   std::make_unique<Halve>());
  pair.backward();
  EXPECT_TRUE(pair.step());
  EXPECT_TRUE(pair.said.texts.empty());
}

TEST_F(NormHooks, FrozenParametersAndThoseThatLeave) {
  Ready pair;
  pair.change([](auto &params) { params[0].requires_grad_(false); });
  for (int turn = 0; turn < 3; ++turn) {
    pair.backward();
    EXPECT_TRUE(pair.step());
  }
  pair.change([](auto &params) { params[0].requires_grad_(true); });
  pair.backward();
  EXPECT_TRUE(pair.step());
  Tensor gone = pair.params[0][2];
  for (auto &optimizer : pair.optimizers)
    optimizer->param_groups()[0].params().erase(
        optimizer->param_groups()[0].params().begin() + 2);
  for (int turn = 0; turn < 2; ++turn) {
    pair.backward();
    EXPECT_TRUE(pair.step());
    EXPECT_EQ(hooksOf(gone), 0u);
  }
  pair.backward();
  EXPECT_TRUE(isTaken(pair));
}

TEST_F(NormHooks, GroupsThatComeAndFilesThatAreLoaded) {
  Ready pair;
  pair.backward();
  Tensor more = at::randn({270000});
  for (int side : {0, 1}) {
    pair.params[side].push_back(more.clone().requires_grad_());
    pair.optimizers[side]->add_param_group(
        torch::optim::OptimizerParamGroup({pair.params[side].back()}));
  }
  EXPECT_TRUE(pair.step());
  pair.backward();
  EXPECT_TRUE(pair.step());
  pair.backward();
  for (auto &optimizer : pair.optimizers) {
    std::stringstream file;
    torch::save(*optimizer, file);
    torch::load(*optimizer, file);
  }
  EXPECT_TRUE(pair.step());
  pair.backward();
  EXPECT_TRUE(isTaken(pair, 4));
}

TEST_F(NormHooks, OtherMemoryOfAParameterAfterItsSum) {
  Ready pair;
  pair.backward();
  pair.change([](auto &params) {
    for (Tensor &param : params)
      param.set_data(param.detach().clone());
  });
  EXPECT_TRUE(pair.step());
  pair.backward();
  EXPECT_TRUE(isTaken(pair));
}

TEST_F(NormHooks, UnderScalersWhoseScalesChange) {
  Pair pair;
  auto options =
      altgrad::amp::GradScalerOptions().init_scale(4).growth_interval(3);
  altgrad::amp::GradScaler first(options), second(options);
  altgrad::amp::GradScaler *scalers[] = {&first, &second};
  for (int turn = 0; turn < 9; ++turn) {
    Tensor scale = first.scale(at::ones({}));
    second.scale(at::ones({}));
    pair.backward(scale.item<double>() * (turn == 5 ? INFINITY : 1));
    for (int side : {0, 1}) {
      if (turn == 7)
        scalers[side]->unscale_(*pair.optimizers[side]);
      scalers[side]->step(*pair.optimizers[side]);
      scalers[side]->update();
    }
    EXPECT_TRUE(pair.areSame() || turn == 5) << turn;
  }
  EXPECT_EQ(pair.optimizers[0]->skipped_steps().item<int64_t>(), 1);
}

TEST_F(NormHooks, HooksGoWithTheirOptimizer) {
  Ready pair;
  EXPECT_EQ(hooksOf(pair.params[0][0]), 1u);
  RuleOptimizer third(pair.params[0], clipped("sgd").norm_in_backward(true),
                      RuleOptions(0.1));
  pair.backward();
  third.step();
  EXPECT_EQ(hooksOf(pair.params[0][0]), 2u);
  pair.optimizers[0].reset();
  EXPECT_EQ(hooksOf(pair.params[0][0]), 1u);
  pair.backward();
  third.step();
}

TEST_F(NormHooks, BackwardInSeveralThreads) {
  Ready pair;
  for (int turn = 0; turn < 4; ++turn) {
    std::vector<Tensor> weights;
    for (const Tensor &param : pair.params[0])
      weights.push_back(at::randn_like(param));
    std::vector<std::thread> threads;
    for (size_t i = 0; i < weights.size(); ++i)
      threads.emplace_back([&, i] {
        for (auto &side : pair.params)
          (side[i] * weights[i]).sum().backward();
      });
    for (std::thread &thread : threads)
      thread.join();
    EXPECT_TRUE(pair.step());
  }
  EXPECT_TRUE(pair.said.texts.empty());
}

TEST_F(NormHooks, SaysOnceWhatItCannotSum) {
  Pair pair(clipped("lamb").profile("torch"));
  for (int turn = 0; turn < 2; ++turn) {
    pair.backward();
    EXPECT_TRUE(pair.step());
  }
  EXPECT_LE(pair.said.texts.size(), 1u);
  Pair plain(RuleSpec("sgd"));
  plain.backward();
  for (auto &optimizer : plain.optimizers)
    optimizer->step();
  EXPECT_TRUE(plain.said.texts.empty());
  EXPECT_EQ(hooksOf(plain.params[0][0]), 0u);
}

} // namespace
