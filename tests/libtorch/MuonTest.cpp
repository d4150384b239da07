// Muon and NorMuon for LibTorch: what they take of altgrad.optim's options, and what they refuse.
#include "Model.h"

#include <altgrad/optim.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/serialize.h>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

// What one step subtracts from zeros, over lr, with products in f32.
template <typename Kind> Tensor updateOf(const Tensor &grad, RuleOptions options = {}) {
  Tensor param = at::zeros(grad.sizes()).requires_grad_();
  param.mutable_grad() = grad.clone();
  Kind(std::vector<Tensor>{param}, options.hyper("lr", 1.0).option("in=f32")).step();
  return -param.detach();
}

// Five steps of Jordan's polynomial on x / |x|, in f64.
Tensor iterated(const Tensor &u) {
  Tensor x = u.to(at::kDouble);
  x = x / x.norm();
  const bool tall = x.size(0) > x.size(1);
  x = tall ? x.t() : x;
  for (int step = 0; step < 5; ++step) {
    Tensor square = x.mm(x.t());
    x = 3.4445 * x + (-4.775 * square + 2.0315 * square.mm(square)).mm(x);
  }
  return tall ? x.t() : x;
}

double scaleOf(const Tensor &x) { return std::sqrt(std::max(1.0, double(x.size(0)) / double(x.size(1)))); }

template <typename Kind> void expectThrow(std::vector<Tensor> params, RuleOptions options, const char *words) {
  try {
    Kind(params, options).step();
    FAIL() << "nothing was refused";
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what_without_backtrace(), testing::HasSubstr(words));
  }
}

TEST(Muon, StepsByRowsHoweverTheMemoryLies) {
  at::manual_seed(1);
  Tensor grad = at::randn({48, 20});
  const Tensor wanted = iterated(grad) * scaleOf(grad);
  Tensor turned = at::zeros({20, 48}).t().requires_grad_();
  turned.mutable_grad() = grad.clone();
  Muon(std::vector<Tensor>{turned}, RuleOptions(1.0).option("in=f32")).step();
  EXPECT_TRUE(at::allclose(-turned.detach().to(at::kDouble), wanted, 0, 2e-4));
  EXPECT_TRUE(at::allclose(updateOf<Muon>(grad).to(at::kDouble), wanted, 0, 2e-4));
}

TEST(Muon, DecaysWhereUpdateAndWeightHaveOneSign) {
  at::manual_seed(2);
  for (bool narrow : {false, true}) {
    Tensor with = leaf({16, 24}), without = twin(with), before = with.detach().clone();
    auto options = RuleOptions(0.1).hyper("decay", 0.5).option("decay=cautious");
    narrow ? NorMuon(std::vector<Tensor>{with}, options).step() : Muon(std::vector<Tensor>{with}, options).step();
    auto none = RuleOptions(0.1).hyper("decay", 0);
    narrow ? NorMuon(std::vector<Tensor>{without}, none).step() : Muon(std::vector<Tensor>{without}, none).step();
    Tensor moved = before - without.detach();
    Tensor wanted = without.detach() - 0.05 * before * (moved * before >= 0);
    EXPECT_TRUE(at::allclose(with.detach(), wanted, 0, 1e-6));
  }
}

TEST(Muon, EqualRowsHaveLengthOneBeforeTheIteration) {
  at::manual_seed(3);
  Tensor grad = at::randn({24, 60}) * at::logspace(-3, 3, 24).unsqueeze(1);
  Tensor wanted = iterated(grad / grad.norm(2, {1}, true));
  EXPECT_TRUE(at::allclose(updateOf<Muon>(grad, RuleOptions().option("equal=rows")).to(at::kDouble), wanted, 0, 2e-4));
  expectThrow<Muon>({leaf({3, 4, 5})}, RuleOptions().option("equal=rows"), "takes matrices as a whole");
}

TEST(Muon, StacksAreTheirMatrices) {
  at::manual_seed(4);
  Tensor stack = leaf({3, 16, 20});
  std::vector<Tensor> apart;
  for (int64_t i = 0; i < 3; ++i) {
    apart.push_back(stack.detach()[i].clone().requires_grad_());
    apart.back().mutable_grad() = stack.grad()[i].clone();
  }
  Muon(std::vector<Tensor>{stack}, RuleOptions(0.02).option("over=unit").option("batches=none")).step();
  Muon(apart, RuleOptions(0.02).option("batches=none")).step();
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_TRUE(sameBits(stack.detach()[i].clone(), apart[size_t(i)]));
  expectThrow<Muon>({leaf({3, 4, 5})}, {}, "takes matrices as a whole");
}

TEST(Muon, KeepsItsMomentumInEightBits) {
  at::manual_seed(5);
  Tensor exact = leaf({64, 256}), narrow = twin(exact);
  Muon wide(std::vector<Tensor>{exact}, RuleOptions(0.02));
  Muon bytes(std::vector<Tensor>{narrow}, RuleOptions(0.02), RuleSpec().storage("buf=bnb8:256"));
  for (int step = 0; step < 3; ++step) {
    exact.mutable_grad() = at::randn({64, 256});
    narrow.mutable_grad() = exact.grad().clone();
    wide.step();
    bytes.step();
  }
  auto &state = static_cast<RuleParamState &>(*bytes.state().at(narrow.unsafeGetTensorImpl()));
  EXPECT_EQ(state.tensor("momentum_buffer").scalar_type(), at::kByte);
  EXPECT_EQ(state.tensor("momentum_buffer_scale").numel(), 64);
  EXPECT_FALSE(at::equal(exact, narrow));
  EXPECT_LT((exact - narrow).norm().item<double>(), 0.06 * 3 * 0.02 * 128);
}

TEST(NorMuon, IsItsFormulaAndGoesOnFromAFile) {
  at::manual_seed(6);
  Tensor param = leaf({40, 24});
  Tensor w = param.detach().to(at::kDouble), b = at::zeros_like(w), s = at::zeros({40, 1}, at::kDouble);
  auto optimizer = std::make_unique<NorMuon>(std::vector<Tensor>{param}, RuleOptions(0.02).option("in=f32"));
  for (int step = 0; step < 5; ++step) {
    param.mutable_grad() = at::randn({40, 24});
    optimizer->step();
    Tensor g = param.grad().to(at::kDouble);
    b = 0.95 * b + 0.05 * g;
    Tensor o = iterated(0.95 * b + 0.05 * g);
    s = 0.95 * s + 0.05 * o.square().mean(at::IntArrayRef{1}, true);
    Tensor n = o / (s.sqrt() + 1e-10);
    w = w - 0.02 * scaleOf(w) * n * o.norm() / n.norm();
    EXPECT_TRUE(at::allclose(param.detach().to(at::kDouble), w, 0, 3e-4)) << step;
    auto &state = static_cast<RuleParamState &>(*optimizer->state().at(param.unsafeGetTensorImpl()));
    EXPECT_EQ(state.tensor("second_momentum_buffer").sizes(), (std::vector<int64_t>{40, 1}));
    if (step != 2)
      continue;
    std::stringstream file;
    torch::save(*optimizer, file);
    optimizer = std::make_unique<NorMuon>(std::vector<Tensor>{param}, RuleOptions(0.02).option("in=f32"));
    torch::load(*optimizer, file);
  }
}

TEST(Muon, SaysWhatItDoesNotTake) {
  expectThrow<Muon>({leaf({24, 16})}, RuleOptions().option("split=8"), "has no option 'split=8'");
  expectThrow<Muon>({leaf({6, 5, 3, 3})}, {}, "takes matrices as a whole");
  expectThrow<Muon>({leaf({24})}, {}, "takes matrices as a whole");
  expectThrow<NorMuon>({leaf({3, 4, 5})}, {}, "takes matrices as a whole");
  expectThrow<NorMuon>({leaf({4, 5})}, RuleOptions().option("red_dim=by_shape"), "has no option 'red_dim=by_shape'");
  expectThrow<Muon>({leaf({4, 5})}, RuleOptions().option("use_muon=false"), "has no option 'use_muon=false'");
}

} // namespace
