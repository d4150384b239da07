// A class for every stock optimizer: torch's own beside torch, the others by
// their formulas.
#include "Model.h"

#include <altgrad/optim.h>

#include <gtest/gtest.h>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

// Steps ours and torch's, saves both, and loads each file into the other class.
template <typename Ours, typename Torchs, typename Options>
void expectAsTorch(const Options &options) {
  std::vector<Tensor> a{leaf({37, 5}), leaf({3})}, b;
  for (const Tensor &param : a)
    b.push_back(twin(param));
  std::unique_ptr<Ours> ours = std::make_unique<Ours>(a, options);
  std::unique_ptr<Torchs> torchs = std::make_unique<Torchs>(b, options);
  for (int step = 0; step < 6; ++step) {
    for (size_t i = 0; i < a.size(); ++i) {
      a[i].mutable_grad() = at::randn(a[i].sizes());
      b[i].mutable_grad() = a[i].grad().clone();
    }
    ours->step();
    torchs->step();
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(at::allclose(a[i], b[i], 1e-5, 1e-6)) << step;
    if (step != 2)
      continue;
    std::stringstream oursFile, torchsFile;
    torch::save(*ours, oursFile);
    torch::save(*torchs, torchsFile);
    ours = std::make_unique<Ours>(a, options);
    torchs = std::make_unique<Torchs>(b, options);
    torch::load(*ours, torchsFile);
    torch::load(*torchs, oursFile);
  }
}

TEST(Stock, AdamIsTorchs) {
  expectAsTorch<Adam, torch::optim::Adam>(AdamOptions(0.01).weight_decay(0.1));
  expectAsTorch<Adam, torch::optim::Adam>(AdamOptions(0.01).amsgrad(true));
}

TEST(Stock, SgdIsTorchs) {
  expectAsTorch<SGD, torch::optim::SGD>(SGDOptions(0.1).weight_decay(0.1));
  SGDOptions momentum = SGDOptions(0.1).momentum(0.9);
  expectAsTorch<SGD, torch::optim::SGD>(momentum);
  expectAsTorch<SGD, torch::optim::SGD>(SGDOptions(momentum).dampening(0.5));
  expectAsTorch<SGD, torch::optim::SGD>(SGDOptions(momentum).nesterov(true));
}

TEST(Stock, RmspropIsTorchs) {
  expectAsTorch<RMSprop, torch::optim::RMSprop>(RMSpropOptions(0.01));
  expectAsTorch<RMSprop, torch::optim::RMSprop>(
      RMSpropOptions(0.01).centered(true).momentum(0.9).weight_decay(0.1));
}

TEST(Stock, AdagradIsTorchs) {
  expectAsTorch<Adagrad, torch::optim::Adagrad>(
      AdagradOptions(0.1).lr_decay(0.1).weight_decay(0.1));
}

// The parameter after three steps with numbers of `options`.
template <typename Class, typename... Options> Tensor stepped(Options... options) {
  at::manual_seed(5);
  const Tensor param = leaf({65});
  Class optimizer(std::vector<Tensor>{param}, options...);
  for (int step = 0; step < 3; ++step) {
    param.mutable_grad() = at::randn({65});
    optimizer.step();
  }
  return param.detach();
}

TEST(Stock, OptionsHaveTheDefaultsOfTheTemplates) {
  EXPECT_TRUE(sameBits(stepped<Adagrad>(AdagradOptions()), stepped<RuleOptimizer>(RuleSpec("adagrad"))));
  EXPECT_TRUE(sameBits(stepped<Adam>(AdamOptions()), stepped<RuleOptimizer>(RuleSpec("adam"))));
  EXPECT_TRUE(sameBits(stepped<AdamW>(AdamWOptions()), stepped<RuleOptimizer>(RuleSpec("adamw"))));
  EXPECT_TRUE(sameBits(stepped<RMSprop>(RMSpropOptions()), stepped<RuleOptimizer>(RuleSpec("rmsprop"))));
  EXPECT_TRUE(sameBits(stepped<SGD>(SGDOptions(1e-3)), stepped<RuleOptimizer>(RuleSpec("sgd"))));
  EXPECT_FALSE(sameBits(stepped<SGD>(SGDOptions(2e-3)), stepped<RuleOptimizer>(RuleSpec("sgd"))));
}

TEST(Stock, LionIsItsFormula) {
  Tensor param = leaf({33}), w = param.detach().clone(), m = at::zeros({33});
  Lion optimizer(std::vector<Tensor>{param}, RuleOptions(0.01).hyper("decay", 0.1));
  for (int step = 0; step < 4; ++step) {
    Tensor grad = param.mutable_grad() = at::randn({33});
    optimizer.step();
    w -= 0.01 * (0.1 * w + at::sign(0.9 * m + 0.1 * grad));
    m = 0.99 * m + 0.01 * grad;
    EXPECT_TRUE(at::allclose(param, w, 1e-5, 1e-6));
  }
}

template <typename Class> std::string wordsOf() {
  Tensor param = leaf({64, 96});
  Tensor before = param.detach().clone();
  Class optimizer(std::vector<Tensor>{param});
  optimizer.step();
  optimizer.step(); // the first one of ADOPT only sets a state
  EXPECT_FALSE(sameBits(before, param.detach()));
  torch::optim::Optimizer &plain = optimizer;
  auto &state = static_cast<RuleParamState &>(
      *plain.state().at(param.unsafeGetTensorImpl()));
  std::string words;
  for (auto &[key, value] : state.tensors())
    words += key + ":" + c10::toString(value.scalar_type()) + " ";
  return words;
}

TEST(Stock, EveryClassStoresWhatItsNameSays) {
  const std::string adam = "exp_avg:Float exp_avg_sq:Float step:Float ";
  EXPECT_EQ(wordsOf<ADOPT>(), adam);
  EXPECT_EQ(wordsOf<LAMB>(), adam);
  EXPECT_EQ(wordsOf<ManifoldAdamW>(), adam);
  EXPECT_EQ(wordsOf<AdEMAMix>(),
            "exp_avg_fast:Float exp_avg_slow:Float exp_avg_sq:Float step:Float ");
  EXPECT_EQ(wordsOf<Lion8bit>(), "exp_avg:Byte exp_avg_scale:Float ");
  EXPECT_EQ(wordsOf<LionFp8>(), "exp_avg:Float8_e4m3fn exp_avg_scale:Float ");
  const std::string bytes = "exp_avg:Byte exp_avg_scale:Float exp_avg_sq:Byte "
                            "exp_avg_sq_scale:Float step:Float ";
  EXPECT_EQ(wordsOf<Adam8bit>(), bytes);
  EXPECT_EQ(wordsOf<AdamW8bit>(), bytes);
  EXPECT_EQ(wordsOf<Adam4bit>(), bytes);
  EXPECT_EQ(wordsOf<AdamW4bit>(), bytes);
  const std::string floats =
      "exp_avg:Float8_e4m3fn exp_avg_scale:Float exp_avg_sq:Float8_e5m2 "
      "exp_avg_sq_scale:Float step:Float ";
  EXPECT_EQ(wordsOf<AdamFp8>(), floats);
  EXPECT_EQ(wordsOf<AdamWFp8>(), floats);
  EXPECT_EQ(wordsOf<GridOptim>(), "velocity:Float ");
}

TEST(Stock, MuonStepsMatrices) {
  EXPECT_EQ(wordsOf<Muon>(), "momentum_buffer:Float ");
}

TEST(Stock, NumbersOfTorchsClassesAreChecked) {
  std::vector<Tensor> params{leaf({5})};
  EXPECT_THROW(SGD(params, SGDOptions(0.1).nesterov(true)), c10::Error);
  EXPECT_THROW(SGD(params, SGDOptions(0.1).momentum(-1)), c10::Error);
  EXPECT_THROW(RMSprop(params, RMSpropOptions(0.1).alpha(-1)), c10::Error);
  EXPECT_THROW(Adagrad(params, AdagradOptions(0.1).initial_accumulator_value(1)),
               c10::Error);
}

} // namespace
