// States of 8 bits with a scale for each block.
#include "Model.h"

#include <altgrad/optim.h>
#include <torch/serialize.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

RuleSpec spec() { return RuleSpec("lion").storage("m=ocp.e4m3fn:256"); }

const RuleParamState &stateOf(const RuleOptimizer &optimizer,
                              const Tensor &param) {
  return static_cast<const RuleParamState &>(
      *optimizer.state().at(param.unsafeGetTensorImpl()));
}

void regrad(const Tensor &param, uint64_t seed) {
  at::manual_seed(seed);
  param.mutable_grad() = at::randn_like(param);
}

TEST(Blocks, LargeTensorsHaveScalesAndSmallOnesF32) {
  Tensor large = leaf({70, 70}), small = leaf({63, 65});
  RuleOptimizer optimizer({large, small}, spec());
  optimizer.step();
  const RuleParamState &of = stateOf(optimizer, large);
  EXPECT_EQ(of.tensor("m").scalar_type(), at::kFloat8_e4m3fn);
  EXPECT_EQ(of.tensor("m_scale").sizes(), at::IntArrayRef({20}));
  EXPECT_EQ(stateOf(optimizer, small).tensor("m").scalar_type(), at::kFloat);
  EXPECT_FALSE(stateOf(optimizer, small).tensor("m_scale").defined());
  Tensor scale = of.tensor("m_scale").repeat_interleave(256).slice(0, 0, 4900);
  Tensor number = of.tensor("m").to(at::kFloat).flatten() * scale;
  EXPECT_TRUE(at::allclose(number, 0.01 * large.grad().flatten(), 0.07, 1e-4));
}

// Codes in a book are bytes, of zeros 127.
TEST(Blocks, OfACodeBookAreBytes) {
  Tensor large = leaf({70, 70});
  RuleOptimizer optimizer({large},
                          RuleSpec("adamw").storage("m=bnb8:256 v=bnb8u:256"));
  optimizer.step();
  const RuleParamState &of = stateOf(optimizer, large);
  EXPECT_EQ(of.tensor("m").scalar_type(), at::kByte);
  EXPECT_EQ(of.tensor("v").scalar_type(), at::kByte);
  EXPECT_EQ(of.tensor("v_scale").sizes(), at::IntArrayRef({20}));
  Tensor up = at::gt(large.grad(), 0), high = at::ge(of.tensor("m"), 127);
  EXPECT_TRUE(at::logical_or(high, at::logical_not(up)).all().item<bool>());
  large.mutable_grad() = at::zeros_like(large);
  RuleOptimizer still({large}, RuleSpec("lion").storage("m=bnb8:256"));
  still.step();
  EXPECT_TRUE(
      at::eq(stateOf(still, large).tensor("m"), 127).all().item<bool>());
}

// FlashOptim's companding: two sizes of blocks, scales in f16 and f32.
TEST(Blocks, OfBentNumbersInTwoSizes) {
  Tensor large = leaf({70, 70});
  RuleOptimizer optimizer(
      {large},
      RuleSpec("adamw").storage("m=int8:32:f16,softsign v=uint8:256,sqrt"));
  optimizer.step();
  const RuleParamState &of = stateOf(optimizer, large);
  EXPECT_EQ(of.tensor("m").scalar_type(), at::kChar);
  EXPECT_EQ(of.tensor("v").scalar_type(), at::kByte);
  EXPECT_EQ(of.tensor("m_scale").scalar_type(), at::kHalf);
  EXPECT_EQ(of.tensor("m_scale").sizes(), at::IntArrayRef({154}));
  EXPECT_EQ(of.tensor("v_scale").sizes(), at::IntArrayRef({20}));
  Tensor y = of.tensor("m").to(at::kFloat).flatten() / 127;
  Tensor scale = of.tensor("m_scale").to(at::kFloat);
  scale = scale.repeat_interleave(32).slice(0, 0, 4900);
  Tensor number = y / (2 - y.abs()) * scale, grad = large.grad().flatten();
  EXPECT_TRUE(at::allclose(number, 0.1 * grad, 0, 0.1 * 4 / 115.0));
  Tensor top = of.tensor("v_scale").repeat_interleave(256).slice(0, 0, 4900);
  Tensor root = of.tensor("v").to(at::kFloat).flatten() / 255 * top;
  EXPECT_TRUE(at::allclose(root, 0.0316228 * grad.abs(), 0, 0.0316228 / 100));
}

TEST(Blocks, GoOnFromAFile) {
  Tensor first = leaf({5000}), second = twin(first);
  RuleOptimizer run({first}, spec()), resumed({second}, spec());
  run.step();
  std::stringstream file;
  torch::save(run, file);
  torch::load(resumed, file);
  second.set_data(first.detach().clone());
  for (const Tensor &param : {first, second})
    regrad(param, 4);
  run.step();
  resumed.step();
  EXPECT_TRUE(sameBits(first.detach(), second.detach()));
  EXPECT_TRUE(sameBits(stateOf(run, first).tensor("m_scale"),
                       stateOf(resumed, second).tensor("m_scale")));
}

TEST(Blocks, AnotherOrderOfMemoryIsRefused) {
  Tensor param = leaf({8, 16, 8, 8});
  RuleOptimizer optimizer({param}, spec());
  optimizer.step();
  param.set_data(param.detach().contiguous(at::MemoryFormat::ChannelsLast));
  regrad(param, 1);
  Tensor before = param.detach().clone();
  try {
    optimizer.step();
    FAIL();
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("state 'm' has strides (1024, 64, 8, 1), and its parameter needs "
                                                 "(1024, 1, 128, 16), because a block consists of neighbours in memory"));
  }
  EXPECT_TRUE(sameBits(param.detach(), before));
}

TEST(Blocks, CodesAreNotReadAsNumbersWithoutTheirScales) {
  Tensor param = leaf({5000}), other = twin(param);
  RuleOptimizer run({param}, spec()), plain({other}, RuleSpec("lion"));
  run.step();
  plain.step();
  auto &state = static_cast<RuleParamState &>(
      *plain.state().at(other.unsafeGetTensorImpl()));
  for (auto &[name, value] : stateOf(run, param).tensors())
    state.tensor(name, value);
  EXPECT_THROW(plain.step(), c10::Error);
}

} // namespace
