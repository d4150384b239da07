// States and copies of 4 bits, two codes to a byte.
#include "Model.h"

#include <altgrad/amp.h>
#include <altgrad/optim.h>
#include <torch/serialize.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

RuleSpec spec() {
  return RuleSpec("adamw").storage("m=torchao4:128 v=torchao4u:128");
}

const Tensor &kept(const RuleOptimizer &optimizer, const Tensor &param,
                   const char *key) {
  return static_cast<const RuleParamState &>(
             *optimizer.state().at(param.unsafeGetTensorImpl()))
      .tensor(key);
}

void regrad(const Tensor &param, uint64_t seed) {
  at::manual_seed(seed);
  param.mutable_grad() = at::randn_like(param);
}

// torchao's unsigned map is 1/16 to 1 in even steps.
TEST(Packed, StatesAreTheNearestNumbersOfTheMap) {
  Tensor even = leaf({64, 66}), odd = leaf({65, 67}), small = leaf({63, 65});
  RuleOptimizer optimizer({even, odd, small}, spec());
  optimizer.step();
  EXPECT_EQ(kept(optimizer, even, "v").sizes(), at::IntArrayRef({64, 33}));
  EXPECT_EQ(kept(optimizer, odd, "v").sizes(), at::IntArrayRef({1, 2178}));
  EXPECT_EQ(kept(optimizer, small, "v").scalar_type(), at::kFloat);
  Tensor codes = kept(optimizer, even, "v").flatten();
  codes = at::stack(
      {at::bitwise_right_shift(codes, 4), at::bitwise_and(codes, 15)}, 1);
  Tensor scale = kept(optimizer, even, "v_scale").repeat_interleave(128);
  Tensor share =
      0.001 * even.grad().flatten().square() / scale.slice(0, 0, even.numel());
  Tensor near = ((codes.flatten().to(at::kFloat) + 1) / 16 - share).abs();
  EXPECT_LE(at::where(at::gt(share, 1.0 / 16), near, 0).max().item<float>(),
            1.01 / 32);
  EXPECT_EQ(kept(optimizer, odd, "v").select(1, -1).item<int>() & 15, 0);
}

TEST(Packed, StatesGoOnFromAFile) {
  for (int64_t side : {70, 69}) {
    Tensor first = leaf({side, side}), second = twin(first);
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
    for (const char *key : {"m", "v", "v_scale"})
      EXPECT_TRUE(sameBits(kept(run, first, key), kept(resumed, second, key)));
  }
}

TEST(Packed, AnotherOrderOfMemoryIsRefused) {
  Tensor param = leaf({8, 16, 8, 8});
  RuleOptimizer optimizer({param}, spec());
  optimizer.step();
  param.set_data(param.detach().contiguous(at::MemoryFormat::ChannelsLast));
  regrad(param, 1);
  EXPECT_THROW(optimizer.step(), c10::Error);
  Tensor moved = at::randn({5, 9, 101}).permute({1, 0, 2}).requires_grad_();
  regrad(moved, 1);
  RuleOptimizer other({moved}, spec());
  try {
    other.step();
    FAIL();
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("make it contiguous"));
  }
}

TEST(Packed, CopiesOfEveryBlockHaveTheScaleThatItsLargestFits) {
  Tensor large = leaf({64, 96}), small = leaf({41});
  RuleOptimizer optimizer({large, small},
                          RuleSpec("lion").storage("copy=mxfp4"));
  optimizer.step();
  Tensor scales = kept(optimizer, large, "copy_scale").to(at::kFloat);
  Tensor blocks = large.detach().view({64, 3, 32});
  Tensor unit =
      at::exp2(at::ceil(at::log2(std::get<0>(blocks.abs().max(2)) / 6)));
  EXPECT_TRUE(at::equal(scales, unit));
  Tensor codes = kept(optimizer, large, "copy");
  EXPECT_EQ(codes.sizes(), at::IntArrayRef({64, 48}));
  EXPECT_EQ(kept(optimizer, small, "copy").sizes(), at::IntArrayRef({21}));
  codes =
      at::stack({at::bitwise_and(codes, 15), at::bitwise_right_shift(codes, 4)},
                2)
          .flatten();
  Tensor grid = at::tensor({0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5,
                            -1.0, -1.5, -2.0, -3.0, -4.0, -6.0},
                           at::kFloat);
  Tensor number = grid.index_select(0, codes.to(at::kLong)).view({64, 3, 32});
  Tensor off = (blocks / unit.unsqueeze(2) - number).abs();
  Tensor least = (blocks / unit.unsqueeze(2)).unsqueeze(3).sub(grid).abs();
  EXPECT_TRUE(at::equal(off, std::get<0>(least.min(3))));
}

// TransformerEngine's formula: the scale of a block is an e4m3, below one of
// the tensor; a step that is not taken leaves what a step would have written.
TEST(Packed, CopiesInNvfp4HaveTwoLevelsOfScales) {
  Tensor param = leaf({32, 48}), other = twin(param);
  param.mutable_grad().zero_();
  auto spec = RuleSpec("sgd").storage("copy=nvfp4");
  RuleOptimizer optimizer({param}, spec), skipped({other}, spec);
  optimizer.step();
  altgrad::amp::GradScaler scaler;
  other.mutable_grad() = Tensor();
  scaler.scale(other.sum()).backward();
  other.mutable_grad().fill_(std::numeric_limits<double>::infinity());
  scaler.step(skipped);
  Tensor scales = kept(optimizer, param, "copy_scale");
  EXPECT_EQ(scales.scalar_type(), at::kFloat8_e4m3fn);
  EXPECT_EQ(scales.sizes(), at::IntArrayRef({32, 3}));
  EXPECT_EQ(kept(optimizer, param, "copy").sizes(), at::IntArrayRef({32, 24}));
  Tensor most = param.detach().abs().max();
  Tensor factor = at::full_like(most, 2688).div(most);
  Tensor level = std::get<0>(param.detach().view({32, 3, 16}).abs().max(2)) *
                 (factor * at::full_like(most, 1.0f / 6));
  EXPECT_TRUE(sameBits(scales, level.clamp_max(448).to(at::kFloat8_e4m3fn)));
  EXPECT_TRUE(at::equal(kept(optimizer, param, "copy_tensor_scale"),
                        factor.reciprocal()));
  for (const char *key :
       {"copy", "copy_scale", "copy_tensor_scale", "copy_amax"})
    EXPECT_TRUE(
        sameBits(kept(optimizer, param, key), kept(skipped, other, key)))
        << key;
}

// What the forward and the backward pass multiply is one matrix.
TEST(Packed, CopiesInNvfp4OfSquaresAreThoseOfTheTranspose) {
  Tensor param = leaf({32, 48});
  Tensor turned = param.detach().t().contiguous().requires_grad_();
  for (const Tensor &one : {param, turned})
    one.mutable_grad() = at::zeros_like(one);
  RuleOptimizer optimizer({param, turned},
                          RuleSpec("sgd").storage("copy=nvfp4:16x16,current"));
  optimizer.step();
  Tensor scales = kept(optimizer, param, "copy_scale");
  EXPECT_EQ(scales.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_TRUE(sameBits(scales.t().contiguous(),
                       kept(optimizer, turned, "copy_scale")));
  auto unpack = [&](const Tensor &of) {
    Tensor codes = kept(optimizer, of, "copy");
    return at::stack({at::bitwise_and(codes, 15),
                      at::bitwise_right_shift(codes, 4)},
                     2)
        .flatten(1);
  };
  EXPECT_TRUE(at::equal(unpack(param).t(), unpack(turned)));
}

} // namespace
