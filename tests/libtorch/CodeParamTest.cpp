// Parameters that hold the codes of a grid.
#include "Model.h"

#include <altgrad/optim.h>
#include <altgrad/quant.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

RuleSpec grid(const std::string &format) { return RuleSpec().storage("states=f32 rungs=" + format).seed(5); }

// A parameter in f32 on the same grid moves alike, and torch knows the numbers of its codes.
TEST(CodeParam, MovesAsItsNumbersDo) {
  for (auto [format, type] : {std::pair{"ocp.e4m3fn", at::kFloat8_e4m3fn}, {"ocp.e5m2", at::kFloat8_e5m2}})
    for (at::ScalarType grads : {at::kFloat, at::kBFloat16}) {
      at::manual_seed(1);
      Tensor codes = at::randn({70, 70}).to(type), numbers = codes.to(at::kFloat);
      codes.requires_grad_(), numbers.requires_grad_();
      GridOptim ours({codes}, {}, grid(format)), reference({numbers}, {}, grid(format));
      EXPECT_EQ(codes.grad_dtype(), at::kFloat);
      for (int step = 0; step < 3; ++step) {
        codes.mutable_grad() = at::randn({70, 70}).to(grads);
        numbers.mutable_grad() = codes.grad().to(at::kFloat);
        ours.step();
        reference.step();
      }
      EXPECT_TRUE(at::equal(codes.detach().to(at::kFloat), numbers.detach()));
    }
}

TEST(CodeParam, BackwardReachesThem) {
  Tensor codes = at::ones({4}).to(at::kFloat8_e4m3fn).requires_grad_();
  GridOptim optimizer({codes}, RuleOptions().hyper("decay", 0), grid("ocp.e4m3fn"));
  (codes.to(at::kFloat) * at::tensor({0.5f, -0.5f, 0.0f, 1.0f})).sum().backward();
  EXPECT_EQ(codes.grad().scalar_type(), at::kFloat);
  optimizer.step();
  Tensor moved = codes.detach().to(at::kFloat);
  EXPECT_LT(moved[0].item<float>(), 1);
  EXPECT_GT(moved[1].item<float>(), 1);
  EXPECT_EQ(moved[2].item<float>(), 1);
}

// Where torch has no dtype, codes lie in uint8, which autograd does not know.
TEST(CodeParam, CodesInIntegersMoveAsTheirNumbersDo) {
  Tensor codes = altgrad::quant::quantize_codes(at::randn({300}), "altgrad.e3m4");
  Tensor numbers = altgrad::quant::dequantize(codes, 1.0, "altgrad.e3m4").requires_grad_();
  GridOptim ours({codes}, {}, grid("altgrad.e3m4")), reference({numbers}, {}, grid("altgrad.e3m4"));
  for (int step = 0; step < 3; ++step) {
    numbers.mutable_grad() = at::randn({300});
    codes.mutable_grad() = numbers.grad().clone();
    ours.step();
    reference.step();
  }
  EXPECT_TRUE(at::equal(altgrad::quant::dequantize(codes, 1.0, "altgrad.e3m4"), numbers.detach()));
}

TEST(CodeParam, OtherTypesAreRefused) {
  Tensor codes = at::ones({4}).to(at::kFloat8_e5m2).requires_grad_();
  try {
    GridOptim optimizer({codes}, {}, grid("ocp.e4m3fn"));
    ADD_FAILURE() << "not refused";
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("is Float8_e5m2, expected Float, BFloat16 or Half"));
  }
  GridOptim optimizer({codes}, {}, grid("ocp.e5m2"));
  codes.mutable_grad() = at::ones({4}).to(at::kFloat8_e5m2);
  EXPECT_THROW(optimizer.step(), c10::TypeError);
}

} // namespace
