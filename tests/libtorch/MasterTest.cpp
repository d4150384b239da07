// A master whose upper half is the parameter.
#include "Model.h"

#include <altgrad/optim.h>
#include <torch/serialize.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

RuleSpec stored(const char *master) {
  return RuleSpec("adamw").storage(master);
}

Tensor stateOf(const RuleOptimizer &optimizer, const Tensor &param,
               const char *key) {
  return static_cast<const RuleParamState &>(
             *optimizer.state().at(param.unsafeGetTensorImpl()))
      .tensor(key);
}

// The upper half less one where the lower one is negative.
Tensor joined(const Tensor &param, const Tensor &remainder) {
  Tensor upper = param.detach().view(at::kShort).to(at::kInt);
  return (upper * 65536 + remainder.to(at::kInt)).view(at::kFloat);
}

void regrad(const Tensor &one, const Tensor &two, uint64_t seed) {
  at::manual_seed(seed);
  one.mutable_grad() = at::randn_like(one);
  two.mutable_grad() = one.grad().clone();
}

TEST(Master, TheRemainderHoldsWhatTheParameterHasNoRoomFor) {
  at::manual_seed(6);
  Tensor ours = leaf({70, 70}, at::kBFloat16), theirs = twin(ours);
  RuleOptimizer split({ours}, stored("master=bf16+i16")),
      whole({theirs}, stored("master=f32"));
  for (uint64_t step = 0; step < 20; ++step) {
    regrad(ours, theirs, step);
    split.step();
    whole.step();
    Tensor remainder = stateOf(split, ours, "remainder");
    EXPECT_EQ(remainder.scalar_type(), at::kShort);
    EXPECT_FALSE(stateOf(split, ours, "master").defined());
    ASSERT_TRUE(
        sameBits(joined(ours, remainder), stateOf(whole, theirs, "master")));
  }
}

TEST(Master, EightBitsAreNearIt) {
  at::manual_seed(7);
  Tensor ours = leaf({5000}, at::kBFloat16), theirs = twin(ours);
  RuleOptimizer near({ours}, stored("master=bf16+i8")),
      whole({theirs}, stored("master=f32"));
  for (uint64_t step = 0; step < 5; ++step) {
    regrad(ours, theirs, step);
    near.step();
    whole.step();
  }
  EXPECT_EQ(stateOf(near, ours, "remainder").scalar_type(), at::kChar);
  EXPECT_TRUE(at::allclose(ours.detach().to(at::kFloat),
                           stateOf(whole, theirs, "master"), 1.0 / 256, 1e-4));
}

TEST(Master, GoesOnFromAFile) {
  Tensor first = leaf({5000}, at::kBFloat16), second = twin(first);
  RuleOptimizer run({first}, stored("master=bf16+i16")),
      resumed({second}, stored("master=bf16+i16"));
  regrad(first, second, 1);
  run.step();
  std::stringstream file;
  torch::save(run, file);
  torch::load(resumed, file);
  second.set_data(first.detach().clone());
  regrad(first, second, 2);
  run.step();
  resumed.step();
  EXPECT_TRUE(sameBits(first.detach(), second.detach()));
  EXPECT_TRUE(sameBits(stateOf(run, first, "remainder"),
                       stateOf(resumed, second, "remainder")));
}

TEST(Master, OfAnotherStorageIsNotLostWithoutAWord) {
  for (auto [saved, loads, words] :
       {std::tuple("master=f32", "master=bf16+i16", "'remainder'"),
        {"master=bf16+i16", "master=f32", "'master'"},
        {"master=bf16+i16", "states=f32", "has a 'remainder', and the"}}) {
    Tensor first = leaf({50}, at::kBFloat16), second = twin(first);
    RuleOptimizer run({first}, stored(saved)), other({second}, stored(loads));
    regrad(first, second, 1);
    run.step();
    other.state()[second.unsafeGetTensorImpl()] =
        run.state().at(first.unsafeGetTensorImpl())->clone();
    try {
      other.step();
      ADD_FAILURE() << saved << " as " << loads;
    } catch (const c10::Error &error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(words));
    }
  }
}

TEST(Master, OfAFloatParameterIsTheParameter) {
  Tensor ours = leaf({300}), plain = twin(ours), half = leaf({9}, at::kHalf);
  RuleOptimizer split({ours}, stored("master=bf16+i16")),
      reference({plain}, RuleSpec("adamw"));
  regrad(ours, plain, 1);
  split.step();
  reference.step();
  EXPECT_TRUE(sameBits(ours.detach(), plain.detach()));
  EXPECT_FALSE(stateOf(split, ours, "remainder").defined());
  EXPECT_THROW(RuleOptimizer({half}, stored("master=bf16+i16")), c10::Error);
}

} // namespace
