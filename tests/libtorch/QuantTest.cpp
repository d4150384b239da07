// Rounding from C++: torch's own casts and arithmetic say what it is.
#include "altgrad/quant.h"

#include "Model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace altgrad::quant;
using namespace altgrad::tests;

namespace {

constexpr const char *e4m3 = "ocp.e4m3fn";

Tensor byTorch(const Tensor &x, const Tensor &scale) {
  return (x.to(at::kFloat) / scale).clamp(-448, 448).to(at::kFloat8_e4m3fn);
}

TEST(Quant, NumbersAndCodesAreThoseOfTorchsCast) {
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (const Tensor &x : {at::randn({37, 53}).to(type), at::randn({8, 9, 10}).to(type).permute({2, 0, 1}),
                            at::randn({64, 64}).to(type).slice(1, 0, 64, 2), at::randn({}).to(type)}) {
      Tensor expected = byTorch(x, at::full({}, 0.03f));
      EXPECT_TRUE(at::equal(quantize_codes(x, e4m3, 0.03).to(at::kFloat), expected.to(at::kFloat)));
      EXPECT_TRUE(at::equal(quantize(x, e4m3, 0.03), (expected.to(at::kFloat) * 0.03f).to(type)));
      EXPECT_EQ(quantize(x, e4m3, 0.03).scalar_type(), type);
    }
  EXPECT_TRUE(sameBits(quantize(at::randn({0, 3}), e4m3), at::empty({0, 3})));
}

// Of an element, a row, a column, a block, a block at a ragged end, and one that repeats `x`.
TEST(Quant, ScalesThatBroadcastAreThoseOfEachElement) {
  Tensor x = at::randn({6, 5, 96});
  std::vector<std::vector<int64_t>> all{{6, 5, 96}, {6, 1, 1}, {5, 1}, {96}, {1, 1, 1}, {5, 96}, {2, 1, 1, 96}};
  for (const auto &sizes : all) {
    Tensor scale = at::rand(sizes) + 0.01;
    for (const Tensor &of : {x, x.transpose(0, 1).contiguous().transpose(0, 1)})
      EXPECT_TRUE(at::equal(quantize(of, e4m3, scale), byTorch(of, scale).to(at::kFloat) * scale)) << sizes;
  }
  for (int64_t block : {1, 7, 16, 32, 100}) {
    Tensor scale = at::rand({6, 5, (96 + block - 1) / block}) + 0.01;
    Tensor each = scale.repeat_interleave(std::min<int64_t>(block, 96), -1).narrow(-1, 0, 96);
    Tensor codes = quantize_codes(x, e4m3, scale, block);
    EXPECT_TRUE(at::equal(codes.to(at::kFloat), byTorch(x, each).to(at::kFloat))) << block;
    EXPECT_TRUE(at::equal(dequantize(codes, scale, "", block), codes.to(at::kFloat) * each)) << block;
    EXPECT_TRUE(at::equal(quantize(x, e4m3, scale, block), dequantize(codes, scale, "", block))) << block;
  }
}

TEST(Quant, CodesOfFormatsWithoutADtypeAreReadByTheirName) {
  Tensor x = at::tensor({-20.0f, -0.3f, 0.0f, 0.26f, 1.0f, 15.0f});
  Tensor codes = quantize_codes(x, "altgrad.e3m4");
  EXPECT_EQ(codes.scalar_type(), at::kByte);
  EXPECT_TRUE(at::equal(dequantize(codes, 2.0, "altgrad.e3m4"), quantize(x, "altgrad.e3m4") * 2));
  EXPECT_TRUE(at::equal(quantize(x, "bf16", 3.0), (x / 3).to(at::kBFloat16).to(at::kFloat) * 3));
  EXPECT_THROW(dequantize(x, 1.0, "altgrad.e3m4"), c10::TypeError);
}

TEST(Quant, BlocksHaveTheScaleThatTheirLargestFits) {
  Tensor x = at::randn({4, 64}), largest = std::get<0>(x.abs().view({4, 2, 32}).max(2));
  auto [codes, scales] = quantize_blocks(x, "mxfp8");
  EXPECT_EQ(codes.scalar_type(), at::kFloat8_e4m3fn);
  Tensor unit = at::exp2(at::ceil(at::log2(largest / 448)));
  EXPECT_TRUE(at::equal(scales.to(at::kFloat), unit));
  EXPECT_TRUE(at::equal(codes.to(at::kFloat), byTorch(x, unit.repeat_interleave(32, 1)).to(at::kFloat)));
  auto [tiles, of] = quantize_blocks(at::randn({130, 200}), "ocp.e4m3fn:128x128");
  EXPECT_EQ(of.sizes(), at::IntArrayRef({2, 2}));
  EXPECT_EQ(tiles.sizes(), at::IntArrayRef({130, 200}));
  auto [halves, few] = quantize_blocks(at::randn({5, 32}), "mxfp4");
  EXPECT_EQ(halves.sizes(), at::IntArrayRef({5, 16}));
  EXPECT_EQ(few.sizes(), at::IntArrayRef({5, 1}));
  EXPECT_THROW(quantize_blocks(at::randn({4, 33})), c10::ValueError);
  for (const char *word : {"ocp.e4m3fn", "nvfp4", "mxfp8,both", "mxfp8,stochastic", "", "mxfp8 mxfp8"})
    EXPECT_THROW(quantize_blocks(x, word), c10::ValueError) << word;
}

TEST(Quant, ScalesBringTheLargestFiniteNumberIntoTheFormat) {
  Tensor x = at::tensor({1.0f, -8.0f, INFINITY, 0.5f}).view({2, 2});
  auto of = [](double amax) { return float(amax * 1.01 / 448); };
  EXPECT_EQ(compute_scale(x, e4m3).item<float>(), of(8));
  EXPECT_TRUE(at::equal(compute_scale(x, e4m3, at::IntArrayRef{1}), at::tensor({of(8), of(0.5)}).view({2, 1})));
  EXPECT_TRUE(
      at::equal(compute_scale(at::tensor({3.0f, 1.0f, 2.0f}), e4m3, std::nullopt, 2), at::tensor({of(3), of(2)})));
  EXPECT_EQ(compute_scale(at::zeros({3}), e4m3).item<float>(), 1e-10f);
  EXPECT_EQ(compute_scale(at::empty({0}), e4m3).item<float>(), 1e-10f);
}

TEST(Quant, GradientsPassStraightThrough) {
  for (bool masked : {false, true}) {
    Tensor x = at::tensor({0.1f, -500.0f, 2.0f, 449.0f}).requires_grad_(), scale = at::ones({2, 1});
    (quantize(x, e4m3, scale, 0, masked) * at::arange(8, at::kFloat).view({2, 4})).sum().backward();
    Tensor all = at::tensor({4.0f, 6.0f, 8.0f, 10.0f});
    EXPECT_TRUE(at::equal(x.grad(), masked ? all * at::tensor({1.0f, 0.0f, 1.0f, 0.0f}) : all));
  }
  EXPECT_FALSE(quantize_codes(at::ones({3}).requires_grad_(), e4m3).requires_grad());
}

TEST(Quant, WhatDoesNotFitIsRefused) {
  Tensor x = at::randn({4, 8});
  EXPECT_THROW(quantize(x, "f32"), c10::ValueError);
  EXPECT_THROW(quantize(x, "fp7"), c10::ValueError);
  for (double scale : {0.0, -1.0, double(INFINITY), double(NAN), 1e300})
    EXPECT_THROW(quantize(x, e4m3, scale), c10::ValueError) << scale;
  EXPECT_THROW(quantize(x, e4m3, at::ones({4, 3}), 4), c10::ValueError);
  EXPECT_THROW(quantize(x, e4m3, at::ones({3})), c10::Error);
  EXPECT_THROW(quantize(x.to(at::kDouble), e4m3), c10::TypeError);
  EXPECT_THROW(quantize(x.to_sparse(), e4m3), c10::TypeError);
}

} // namespace
