// Copies of the parameter with a scale for each block.
#include "Model.h"

#include <altgrad/amp.h>
#include <altgrad/optim.h>
#include <torch/serialize.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

const Tensor &kept(const RuleOptimizer &optimizer, const Tensor &param,
                   const char *key) {
  return static_cast<const RuleParamState &>(
             *optimizer.state().at(param.unsafeGetTensorImpl()))
      .tensor(key);
}

TEST(Copies, OfEveryBlockHaveTheScaleThatItsLargestFits) {
  Tensor large = leaf({64, 96}), small = leaf({40});
  RuleOptimizer optimizer({large, small},
                          RuleSpec("lion").storage("copy=mxfp8"));
  optimizer.step();
  Tensor scales = kept(optimizer, large, "copy_scale");
  EXPECT_EQ(scales.scalar_type(), at::kFloat8_e8m0fnu);
  EXPECT_EQ(scales.sizes(), at::IntArrayRef({64, 3}));
  EXPECT_EQ(kept(optimizer, small, "copy_scale").sizes(), at::IntArrayRef({2}));
  Tensor blocks = large.detach().view({64, 3, 32});
  Tensor unit =
      at::exp2(at::ceil(at::log2(std::get<0>(blocks.abs().max(2)) / 448)));
  EXPECT_TRUE(at::equal(scales.to(at::kFloat), unit));
  Tensor codes = (blocks / unit.unsqueeze(2)).to(at::kFloat8_e4m3fn);
  EXPECT_TRUE(
      sameBits(kept(optimizer, large, "copy").view({64, 3, 32}), codes));
}

// Codes and scales of the columns of a parameter, in blocks of 32 rows.
void expectColumns(const RuleOptimizer &optimizer, const Tensor &param) {
  Tensor matrix = param.detach().view({-1, param.size(-1)});
  int64_t rows = matrix.size(0), columns = matrix.size(1),
          blocks = (rows + 31) / 32;
  Tensor turned = at::zeros({columns, blocks * 32});
  turned.narrow(1, 0, rows).copy_(matrix.t());
  turned = turned.view({columns, blocks, 32});
  Tensor unit =
      at::exp2(at::ceil(at::log2(std::get<0>(turned.abs().max(2)) / 448)));
  Tensor scales = kept(optimizer, param, "copy_columns_scale");
  EXPECT_EQ(scales.scalar_type(), at::kFloat8_e8m0fnu);
  EXPECT_TRUE(at::equal(scales.to(at::kFloat), unit.t()));
  Tensor codes = (turned / unit.unsqueeze(2)).to(at::kFloat8_e4m3fn);
  codes = codes.view({columns, blocks * 32}).narrow(1, 0, rows).t();
  EXPECT_TRUE(sameBits(kept(optimizer, param, "copy_columns"),
                       codes.contiguous().view(param.sizes())));
}

TEST(Copies, OfColumnsHaveTheScalesOfTheirColumns) {
  Tensor large = leaf({70, 96}), small = leaf({40});
  RuleOptimizer optimizer({large, small},
                          RuleSpec("lion").storage("copy=mxfp8,both"));
  for (int i = 0; i < 2; ++i)
    optimizer.step();
  expectColumns(optimizer, large);
  EXPECT_EQ(kept(optimizer, small, "copy_columns_scale").sizes(),
            at::IntArrayRef({1, 40}));
}

// Tiles of 128 columns would cut them: the copy has a sweep of its own.
TEST(Copies, OfColumnsGoBesideLongBlocksOfStates) {
  Tensor param = leaf({136, 96}), other = param.detach().clone();
  other.requires_grad_().mutable_grad() = param.grad().clone();
  const std::string states = "states=bnb8:256";
  RuleOptimizer optimizer({param},
                          RuleSpec("adamw").storage(states + " copy=mxfp8,both"));
  RuleOptimizer plain({other}, RuleSpec("adamw").storage(states));
  for (int i = 0; i < 2; ++i)
    optimizer.step(), plain.step();
  expectColumns(optimizer, param);
  EXPECT_TRUE(sameBits(param.detach(), other.detach()));
  for (const char *key : {"m", "m_scale", "v", "v_scale"})
    EXPECT_TRUE(sameBits(kept(optimizer, param, key), kept(plain, other, key)))
        << key;
}

// Units are of the first dimension, rows of the last one.
TEST(Copies, OfColumnsGoBesideUnitsThatAreClipped) {
  Tensor param = leaf({3, 50, 96}), other = param.detach().clone();
  other.requires_grad_().mutable_grad() = param.grad().clone();
  RuleSpec spec = RuleSpec("adamw").max_grad_norm(0.01).clip("agc-unit");
  RuleOptimizer optimizer({param}, RuleSpec(spec).storage("copy=mxfp8,both"));
  RuleOptimizer plain({other}, spec);
  for (int i = 0; i < 2; ++i)
    optimizer.step(), plain.step();
  expectColumns(optimizer, param);
  EXPECT_TRUE(sameBits(param.detach(), other.detach()));
}

TEST(Copies, OfColumnsAreThereWhenTheFirstStepIsSkipped) {
  Tensor param = leaf({40, 64}), before = param.detach().clone();
  RuleOptimizer optimizer({param}, RuleSpec("lion").storage("copy=mxfp8,both"));
  altgrad::amp::GradScaler scaler(
      altgrad::amp::GradScalerOptions().init_scale(1));
  scaler.scale((param * 3).sum()).backward();
  param.mutable_grad().view(-1)[0] = INFINITY;
  scaler.step(optimizer);
  EXPECT_TRUE(sameBits(param.detach(), before));
  expectColumns(optimizer, param);
}

// Codes and scales of blocks of 128 rows and columns.
void expectSquares(const RuleOptimizer &optimizer, const Tensor &param) {
  Tensor matrix = param.detach().reshape({-1, param.size(-1)});
  Tensor codes = kept(optimizer, param, "copy").view(matrix.sizes());
  Tensor scales = kept(optimizer, param, "copy_scale");
  EXPECT_EQ(scales.sizes(), at::IntArrayRef({(matrix.size(0) + 127) / 128,
                                             (matrix.size(1) + 127) / 128}));
  for (int64_t i = 0; i < scales.size(0); ++i)
    for (int64_t j = 0; j < scales.size(1); ++j) {
      auto blockOf = [&](const Tensor &of) {
        return of.slice(0, 128 * i, 128 * (i + 1))
            .slice(1, 128 * j, 128 * (j + 1))
            .contiguous();
      };
      Tensor block = blockOf(matrix), factor = 448 / block.abs().max();
      EXPECT_TRUE(at::equal(scales[i][j], 1 / factor));
      Tensor expected =
          (block * factor).clamp(-448, 448).to(at::kFloat8_e4m3fn);
      EXPECT_TRUE(sameBits(blockOf(codes), expected));
    }
}

TEST(Copies, OfSquaresHaveTheScalesOfTheirBlocks) {
  Tensor large = leaf({130, 260}), deep = leaf({3, 50, 140}), row = leaf({300});
  Tensor none = leaf({0, 5});
  auto spec = RuleSpec("lion").storage("copy=ocp.e4m3fn:128x128");
  RuleOptimizer optimizer({large, deep, row, none}, spec);
  for (int i = 0; i < 2; ++i)
    optimizer.step();
  for (const Tensor &param : {large, deep, row})
    expectSquares(optimizer, param);
  Tensor other = twin(large);
  RuleOptimizer run({large}, spec), resumed({other}, spec);
  run.step();
  std::stringstream file;
  torch::save(run, file);
  torch::load(resumed, file);
  for (const char *key : {"copy", "copy_scale"})
    EXPECT_TRUE(sameBits(kept(run, large, key), kept(resumed, other, key)));
}

TEST(Copies, OfSquaresAreThereWhenTheFirstStepIsSkipped) {
  Tensor param = leaf({2, 70, 150}), before = param.detach().clone();
  RuleOptimizer optimizer({param},
                          RuleSpec("lion").storage("copy=ocp.e4m3fn:128x128"));
  altgrad::amp::GradScaler scaler(
      altgrad::amp::GradScalerOptions().init_scale(1));
  scaler.scale((param * 3).sum()).backward();
  param.mutable_grad().view(-1)[0] = INFINITY;
  scaler.step(optimizer);
  EXPECT_TRUE(sameBits(param.detach(), before));
  expectSquares(optimizer, param);
}

TEST(Copies, GoOnFromAFile) {
  Tensor first = leaf({8, 64}), second = twin(first);
  auto spec = RuleSpec("lion").storage("copy=mxfp8,floor");
  RuleOptimizer run({first}, spec), resumed({second}, spec);
  run.step();
  std::stringstream file;
  torch::save(run, file);
  torch::load(resumed, file);
  EXPECT_TRUE(
      sameBits(kept(run, first, "copy"), kept(resumed, second, "copy")));
  second.set_data(first.detach().clone());
  run.step();
  resumed.step();
  for (const char *key : {"copy", "copy_scale"})
    EXPECT_TRUE(sameBits(kept(run, first, key), kept(resumed, second, key)));
}

TEST(Copies, RoundedByDrawsBeginRoundedToNearest) {
  Tensor param = leaf({8, 64});
  RuleOptimizer optimizer(
      {param}, RuleSpec("lion").storage("copy=mxfp8,stochastic,even").seed(3));
  optimizer.step();
  Tensor number =
      kept(optimizer, param, "copy").to(at::kFloat).view({8, 2, 32}) *
      kept(optimizer, param, "copy_scale").to(at::kFloat).unsqueeze(2);
  EXPECT_TRUE(at::allclose(number.view({8, 64}), param.detach(), 0.13, 0.01));
}

TEST(Copies, WithOneScaleFollowByAStep) {
  Tensor param = leaf({40, 50});
  RuleOptimizer optimizer(
      {param}, RuleSpec("lion").storage("copy=ocp.e4m3fn,delayed,pow2"));
  for (int step = 0; step < 2; ++step) {
    Tensor scale =
        at::exp2(at::floor(at::log2(448 / param.detach().abs().max())));
    optimizer.step();
    Tensor codes =
        (param.detach() * scale).clamp(-448, 448).to(at::kFloat8_e4m3fn);
    EXPECT_TRUE(sameBits(kept(optimizer, param, "copy"), codes));
    EXPECT_TRUE(at::equal(kept(optimizer, param, "copy_scale"), 1 / scale));
    EXPECT_TRUE(at::equal(kept(optimizer, param, "copy_amax"),
                          param.detach().abs().max()));
  }
}

// By the largest number of three steps, of this one, and by Adam's bound.
TEST(Copies, WithOneScaleOfAnotherKind) {
  for (std::string word : {"delayed:3", "current", "bounded"}) {
    Tensor param = leaf({40, 50});
    std::vector<Tensor> past{param.detach().abs().max()};
    RuleOptimizer optimizer(
        {param}, RuleSpec("adamw").storage(
                     "states=f32 copy=ocp.e4m3fn,stochastic32," + word));
    for (int step = 0; step < 5; ++step) {
      optimizer.step();
      Tensor now = param.detach().abs().max();
      size_t first = past.size() > 3 ? past.size() - 3 : 0;
      Tensor most =
          word == "current"
              ? now
              : at::stack(std::vector<Tensor>(past.begin() + first, past.end()))
                    .max();
      Tensor scale = kept(optimizer, param, "copy_scale");
      if (word == "bounded")
        EXPECT_TRUE(at::ge(scale * 448, now).item<bool>());
      else
        EXPECT_TRUE(at::equal(scale, 1 / (448 / most))) << word;
      EXPECT_TRUE(
          at::allclose(kept(optimizer, param, "copy").to(at::kFloat) * scale,
                       param.detach(), 0.13, 0.01));
      past.push_back(now);
    }
  }
}

TEST(Copies, OfRowsThatBlocksWouldStraddleAreRefused) {
  for (const Tensor &param : {leaf({32, 48}), leaf({64, 32}).detach().t()}) {
    Tensor given = param.detach().set_requires_grad(true);
    given.mutable_grad() = at::ones_like(given);
    RuleOptimizer optimizer({given}, RuleSpec("lion").storage("copy=mxfp8"));
    Tensor before = given.detach().clone();
    EXPECT_THROW(optimizer.step(), c10::Error);
    EXPECT_TRUE(sameBits(given.detach(), before));
  }
}

} // namespace
