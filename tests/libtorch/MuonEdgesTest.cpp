// Muon and NorMuon for LibTorch where groups, gradients and parameters change between steps.
#include "Model.h"

#include <altgrad/amp.h>
#include <altgrad/optim.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace altgrad::tests;
using namespace altgrad::optim;
using Group = torch::optim::OptimizerParamGroup;

namespace {

RuleOptions splitBy(const char *words) { return RuleOptions(0.02).option("batches=none").option(words); }

const Tensor &stateIn(const torch::optim::Optimizer &optimizer, const Tensor &param, const char *key) {
  return static_cast<RuleParamState &>(*optimizer.state().at(param.unsafeGetTensorImpl())).tensor(key);
}

TEST(MuonEdges, GradientsOfASplitParameterLieAsTheyLike) {
  at::manual_seed(1);
  Tensor plain = leaf({24, 16}), other = twin(plain), absent = leaf({24, 16}), before = absent.detach().clone();
  absent.mutable_grad() = Tensor();
  other.mutable_grad() = plain.grad().t().contiguous().t();
  NorMuon one(std::vector<Tensor>{plain, leaf({8, 8})}, splitBy("split=8"));
  NorMuon two(std::vector<Tensor>{absent, other}, splitBy("split=8"));
  for (int step = 0; step < 2; ++step)
    one.step(), two.step();
  EXPECT_TRUE(sameBits(plain, other));
  EXPECT_TRUE(sameBits(before, absent));
  absent.mutable_grad() = plain.grad().clone();
  two.step();
  EXPECT_FALSE(sameBits(before, absent));
}

TEST(MuonEdges, AnotherSplitTakesEffectInTheNextStep) {
  at::manual_seed(2);
  Tensor param = leaf({24, 16}), other = twin(param);
  Muon changing(std::vector<Tensor>{param}, splitBy("split=12")), whole(std::vector<Tensor>{other}, splitBy("split=12"));
  changing.step(), whole.step();
  auto &options = static_cast<RuleOptions &>(changing.param_groups()[0].options());
  options.option("split=12", false).option("split=16/8");
  Muon fresh(std::vector<Tensor>{other}, splitBy("split=16/8"));
  std::stringstream file;
  torch::save(whole, file);
  torch::load(fresh, file);
  static_cast<RuleOptions &>(fresh.param_groups()[0].options()).option("split=12", false).option("split=16/8");
  changing.step(), fresh.step();
  EXPECT_TRUE(sameBits(param, other));
  options.option("split=7/7");
  const Tensor before = param.detach().clone();
  EXPECT_THROW(changing.step(), c10::Error);
  EXPECT_TRUE(sameBits(before, param));
}

TEST(MuonEdges, AParameterOfAnotherShapeIsRefusedWithNothingWritten) {
  at::manual_seed(3);
  Tensor param = leaf({24, 16}), beside = leaf({8, 8});
  NorMuon optimizer(std::vector<Tensor>{beside, param}, RuleOptions(0.02));
  optimizer.step();
  const Tensor before = beside.detach().clone();
  param.mutable_grad() = Tensor();
  param.set_data(at::randn({12, 16}));
  param.mutable_grad() = at::randn({12, 16});
  EXPECT_THROW(optimizer.step(), c10::Error);
  EXPECT_TRUE(sameBits(before, beside));
  optimizer.state().erase(param.unsafeGetTensorImpl());
  optimizer.step();
  EXPECT_EQ(stateIn(optimizer, param, "second_momentum_buffer").sizes(), (std::vector<int64_t>{12, 1}));
}

TEST(MuonEdges, ANanSkipsPiecesAndTheirMastersTogether) {
  at::manual_seed(4);
  Tensor param = leaf({24, 16}, at::kBFloat16);
  const Tensor bytes = param.detach().clone();
  NorMuon optimizer(std::vector<Tensor>{param, leaf({24, 0}, at::kBFloat16)}, splitBy("split=16/4/4"),
                    RuleSpec().storage("master=f32"));
  altgrad::amp::GradScaler scaler;
  scaler.scale(at::ones({}));
  param.mutable_grad()[20][3] = NAN;
  scaler.step(optimizer);
  scaler.update();
  EXPECT_TRUE(sameBits(bytes, param));
  EXPECT_TRUE(at::equal(stateIn(optimizer, param, "momentum_buffer"), at::zeros({24, 16})));
  EXPECT_EQ(optimizer.skipped_steps().item<int64_t>(), 1);
  param.mutable_grad()[20][3] = 0;
  scaler.step(optimizer);
  EXPECT_TRUE(at::equal(stateIn(optimizer, param, "master").to(at::kBFloat16), param));
  EXPECT_EQ((bytes != param).reshape({24, 16}).any(1).sum().item<int64_t>(), 24);
}

} // namespace
