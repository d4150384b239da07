// Muon and NorMuon for LibTorch: what they take of altgrad.optim's options, and what they refuse.
#include "Model.h"
#include "cuda/fakecuda.h"

#include <altgrad/amp.h>
#include <altgrad/optim.h>

#include <c10/util/tempfile.h>
#include <cstdio>
#include <dlfcn.h>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
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
}

// Leaves of parts of a parameter and of its gradient.
std::vector<Tensor> leavesOf(const std::vector<Tensor> &parts, const std::vector<Tensor> &grads) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < parts.size(); ++i) {
    leaves.push_back(parts[i].detach().clone(at::MemoryFormat::Contiguous).requires_grad_());
    leaves.back().mutable_grad() = grads[i].clone();
  }
  return leaves;
}

// Two steps of a parameter with `words` are those of its `parts` alone, bit for bit, from a file on, too.
template <typename Kind, typename Split>
void expectParts(const Tensor &param, const char *words, const Split &split, std::vector<const char *> more = {}) {
  RuleOptions common = RuleOptions(0.02).option("batches=none"), own;
  for (const char *word : more)
    common.option(word);
  own = common;
  if (*words)
    own.option(words);
  std::vector<Tensor> parts = leavesOf(split(param.detach()), split(param.grad()));
  auto whole = std::make_unique<Kind>(std::vector<Tensor>{param}, own);
  Kind others(parts, common);
  for (int step = 0; step < 2; ++step) {
    whole->step();
    others.step();
    std::stringstream file;
    torch::save(*whole, file);
    whole = std::make_unique<Kind>(std::vector<Tensor>{param}, own);
    torch::load(*whole, file);
  }
  const std::vector<Tensor> made = split(param.detach());
  for (size_t i = 0; i < parts.size(); ++i)
    EXPECT_TRUE(sameBits(made[i].contiguous(), parts[i])) << words << " " << i;
}

TEST(Muon, StacksAreTheirMatrices) {
  at::manual_seed(4);
  auto unbound = [](const Tensor &of) { return of.unbind(); };
  expectParts<Muon>(leaf({3, 16, 20}), "", unbound);
  expectParts<NorMuon>(leaf({3, 16, 20}), "", unbound);
  expectParts<Muon>(leaf({3, 16, 20}), "", unbound, {"equal=rows"});
  expectParts<NorMuon>(leaf({3, 16, 20}), "red_dim=by_shape", unbound, {"red_dim=by_shape"});
  Tensor turned = at::randn({20, 16, 3}).permute({2, 1, 0}).requires_grad_();
  turned.mutable_grad() = at::randn({3, 16, 20});
  expectParts<NorMuon>(turned, "", unbound);
}

TEST(Muon, SplitsAreMatricesOfTheirOwn) {
  at::manual_seed(8);
  expectParts<Muon>(leaf({24, 16}), "split=8", [](const Tensor &of) { return of.split(8); });
  expectParts<NorMuon>(leaf({24, 16}), "split=8", [](const Tensor &of) { return of.split(8); });
  auto grouped = [](const Tensor &of) { return of.split_with_sizes({16, 4, 4}); };
  expectParts<Muon>(leaf({24, 16}), "split=16/4/4", grouped);
  expectParts<NorMuon>(leaf({24, 16}, at::kBFloat16), "split=16/4/4", grouped);
}

TEST(Muon, FiltersAreRows) {
  at::manual_seed(9);
  auto rows = [](const Tensor &of) { return std::vector<Tensor>{of.flatten(1)}; };
  expectParts<Muon>(leaf({12, 5, 3, 3}), "", rows);
  expectParts<NorMuon>(leaf({12, 5, 3}), "flatten=true", rows);
  expectParts<Muon>(leaf({4, 6, 5, 3}), "flatten=false", [](const Tensor &of) { return of.flatten(0, 1).unbind(); });
  Tensor last = at::randn({12, 5, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  Tensor first = last.detach().contiguous().requires_grad_();
  first.mutable_grad() = at::randn({12, 5, 3, 3});
  last.mutable_grad() = first.grad().clone();
  Muon(std::vector<Tensor>{first, last}, RuleOptions(1.0).option("in=f32")).step();
  EXPECT_TRUE(at::allclose(first, last, 0, 1e-5));
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

// The formula of NorMuon, whose wide matrices are stepped as their transposes, in f64.
TEST(NorMuon, TakesTheAxisByShape) {
  at::manual_seed(10);
  for (auto [rows, columns] : {std::pair(24, 40), {40, 24}, {1, 9}}) {
    Tensor param = leaf({rows, columns});
    const bool wide = columns > rows;
    Tensor w = param.detach().to(at::kDouble), b = at::zeros_like(w);
    Tensor s = at::zeros(wide ? std::vector<int64_t>{1, columns} : std::vector<int64_t>{rows, 1}, at::kDouble);
    NorMuon optimizer(std::vector<Tensor>{param}, RuleOptions(0.02).option("in=f32").option("red_dim=by_shape"));
    for (int step = 0; step < 3; ++step) {
      param.mutable_grad() = at::randn({rows, columns});
      optimizer.step();
      Tensor g = param.grad().to(at::kDouble);
      b = 0.95 * b + 0.05 * g;
      Tensor o = iterated(0.95 * b + 0.05 * g);
      s = 0.95 * s + 0.05 * o.square().mean(at::IntArrayRef{wide ? 0 : 1}, true);
      Tensor n = o / (s.sqrt() + 1e-10);
      w = w - 0.02 * scaleOf(w) * n * o.norm() / n.norm();
      EXPECT_TRUE(at::allclose(param.detach().to(at::kDouble), w, 0, 3e-4)) << rows << " " << step;
    }
    auto &state = static_cast<RuleParamState &>(*optimizer.state().at(param.unsafeGetTensorImpl()));
    EXPECT_EQ(state.tensor("second_momentum_buffer").sizes(), s.sizes());
  }
}

TEST(Muon, MatricesOfOneParameterSayTheirNormTogether) {
  at::manual_seed(11);
  Tensor param = leaf({24, 16});
  RuleSpec spec;
  spec.statistics(true);
  NorMuon optimizer(std::vector<Tensor>{leaf({8, 8}), param}, RuleOptions(0.02).option("split=8"), spec);
  optimizer.step();
  const Tensor norms = optimizer.statistics().at("grad_norm");
  EXPECT_NEAR(norms[1].item<double>(), param.grad().norm().item<double>(), 1e-5);
}

TEST(Muon, StatesWhoseRowsEndWithinBlocksStayWide) {
  at::manual_seed(12);
  Tensor param = leaf({64, 200});
  NorMuon optimizer(std::vector<Tensor>{param}, RuleOptions(0.02), RuleSpec().storage("buf=bnb8:256"));
  optimizer.step();
  auto &state = static_cast<RuleParamState &>(*optimizer.state().at(param.unsafeGetTensorImpl()));
  EXPECT_EQ(state.tensor("momentum_buffer").scalar_type(), at::kFloat);
}

using Group = torch::optim::OptimizerParamGroup;

std::vector<Group> withAdamW(const std::vector<Tensor> &matrices, const std::vector<Tensor> &others) {
  auto options = RuleOptions(3e-3).hyper("beta2", 0.95).option("rule=adamw");
  return {Group(matrices), Group(others, std::make_unique<RuleOptions>(options))};
}

TEST(Muon, HasAdamWBesideItInOneProgram) {
  at::manual_seed(14);
  RuleSpec spec;
  spec.storage("master=f32 buf=bf16 v=bf16");
  std::vector<Tensor> matrices{leaf({24, 16}, at::kBFloat16), leaf({3, 8, 8}, at::kBFloat16)},
      others{leaf({24}, at::kBFloat16), leaf({0, 3}, at::kBFloat16), leaf({5, 7}, at::kBFloat16)}, theirs, ones;
  for (const Tensor &param : matrices)
    theirs.push_back(twin(param));
  for (const Tensor &param : others)
    ones.push_back(twin(param));
  auto both = std::make_unique<Muon>(withAdamW(matrices, others), RuleOptions(0.02), spec);
  Muon alone(theirs, RuleOptions(0.02), RuleSpec().storage("master=f32 buf=bf16"));
  RuleOptimizer adamw(ones, RuleSpec("adamw").storage("master=f32 v=bf16"),
                      RuleOptions(3e-3).hyper("beta2", 0.95).hyper("decay", 0.1).hyper("eps", 1e-7));
  for (int step = 0; step < 3; ++step) {
    others[0].mutable_grad() = step == 1 ? Tensor() : others[2].grad().flatten().narrow(0, 0, 24).clone();
    ones[0].mutable_grad() = others[0].grad();
    for (torch::optim::Optimizer *optimizer : {(torch::optim::Optimizer *)both.get(), (torch::optim::Optimizer *)&alone,
                                               (torch::optim::Optimizer *)&adamw})
      optimizer->step();
    std::stringstream file;
    torch::save(*both, file);
    both = std::make_unique<Muon>(withAdamW(matrices, others), RuleOptions(0.02), spec);
    torch::load(*both, file);
  }
  EXPECT_TRUE(sameBits(matrices, theirs));
  EXPECT_TRUE(sameBits(others, ones));
  auto &state = static_cast<RuleParamState &>(*both->state().at(others[2].unsafeGetTensorImpl()));
  EXPECT_EQ(state.tensor("exp_avg_sq").scalar_type(), at::kBFloat16);
  EXPECT_EQ(state.tensor("step").item<int64_t>(), 3);
}

TEST(Muon, OneNormAndOneVerdictAreForAllGroups) {
  at::manual_seed(15);
  std::vector<Tensor> matrices{leaf({24, 16})}, others{leaf({24})};
  RuleSpec spec;
  Muon optimizer(withAdamW(matrices, others), RuleOptions(0.02), spec.max_grad_norm(1.0));
  altgrad::amp::GradScaler scaler;
  scaler.scale(at::ones({}));
  for (const Tensor *of : {&matrices[0], &others[0]})
    of->mutable_grad().mul_(65536);
  const Tensor before = matrices[0].detach().clone();
  others[0].mutable_grad()[3] = NAN;
  scaler.step(optimizer);
  scaler.update();
  EXPECT_TRUE(at::equal(matrices[0], before));
  EXPECT_EQ(scaler.get_scale(), 32768);
  others[0].mutable_grad()[3] = 0;
  scaler.step(optimizer);
  const double wanted = at::cat({matrices[0].grad().flatten(), others[0].grad()}).norm().item<double>() / 32768;
  EXPECT_NEAR(optimizer.last_grad_norm(), wanted, 1e-4 * wanted);
  EXPECT_FALSE(at::equal(matrices[0], before));
}

TEST(Muon, GroupsWithARuleThatIsAddedLater) {
  at::manual_seed(16);
  Tensor weight = leaf({24, 16}), bias = leaf({24}), other = twin(bias);
  Muon optimizer(std::vector<Tensor>{weight}, RuleOptions(0.02));
  optimizer.step();
  optimizer.add_param_group(withAdamW({}, {bias})[1]);
  optimizer.step();
  RuleOptimizer(std::vector<Tensor>{other}, RuleSpec("adamw"),
                RuleOptions(3e-3).hyper("beta2", 0.95).hyper("decay", 0.1).hyper("eps", 1e-7))
      .step();
  EXPECT_TRUE(sameBits(bias, other));
  auto wrong = std::make_unique<RuleOptions>(RuleOptions(1e-3).option("rule=adamw").hyper("momentum", 0.9));
  EXPECT_THROW(optimizer.add_param_group(Group({leaf({3})}, std::move(wrong))), c10::Error);
  expectThrow<Muon>({leaf({4, 5})}, RuleOptions().option("rule=adam w"), "'rule=adam w' has to name a rule");
}

// Kernels for symmetric products among the launches of the test driver since the last call.
int ownProducts(void *driver) {
  auto at = reinterpret_cast<decltype(&fakecuda_launch_at)>(dlsym(driver, "fakecuda_launch_at"));
  int found = 0;
  fakecuda_launch launch;
  for (size_t i = 0; at(i, &launch); ++i)
    found += std::strncmp(launch.kernel, "altgrad_symmetric_", 18) == 0;
  reinterpret_cast<void (*)()>(dlsym(driver, "fakecuda_clear_launches"))();
  return found;
}

TEST(Muon, HasAGpusProductsOfItsOwnWhereTheEnvironmentSaysSo) {
  if (!getenv("ALTGRAD_STANDS_FOR_CUDA"))
    GTEST_SKIP() << "only GPUs have these kernels";
  at::manual_seed(13);
  Tensor param = leaf({32, 40}), other = twin(param);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  Muon(std::vector<Tensor>{param}, RuleOptions(0.02)).step();
  ownProducts(driver);
  for (const char *word : {"library", "own"}) {
    setenv("ALTGRAD_CUDA_PRODUCTS", word, 1);
    Muon(std::vector<Tensor>{twin(other)}, RuleOptions(0.02)).step();
    EXPECT_EQ(ownProducts(driver) > 0, std::string(word) == "own") << word;
  }
  Muon(std::vector<Tensor>{other}, RuleOptions(0.02)).step();
  unsetenv("ALTGRAD_CUDA_PRODUCTS");
  EXPECT_TRUE(at::allclose(param, other, 0, 1e-3));
}

TEST(Muon, AloneAsksForProductsOfItsOwn) {
  if (!getenv("ALTGRAD_STANDS_FOR_CUDA"))
    GTEST_SKIP() << "only GPUs have these kernels";
  const c10::TempDir folder = c10::make_tempdir("altgrad-compiler-");
  const std::string path = folder.name + "/altgrad-opt";
  std::ofstream(path) << "#!/bin/sh\ncase \"$*\" in *--own-products*) exit 1;; esac\nexec \"$ALTGRAD_OPT\" \"$@\"\n";
  ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  setenv("ALTGRAD_CUDA_PRODUCTS", "own", 1);
  const auto spec = RuleSpec().compiler(path);
  EXPECT_NO_THROW(Lion(std::vector<Tensor>{leaf({32, 40})}, RuleOptions(0.02), spec).step());
  EXPECT_THROW(Muon(std::vector<Tensor>{leaf({32, 40})}, RuleOptions(0.02), spec).step(), c10::Error);
  unsetenv("ALTGRAD_CUDA_PRODUCTS");
  remove(path.c_str());
}

TEST(Muon, SaysWhatItDoesNotTake) {
  expectThrow<Muon>({leaf({24, 16})}, RuleOptions().option("split=7"),
                    "parameter 0 of group 0 has 24 rows, and split=7 is no whole number that divides them");
  expectThrow<Muon>({leaf({24, 16})}, RuleOptions().option("split=qkv"), "split=qkv is no whole number");
  expectThrow<Muon>({leaf({24, 16})}, RuleOptions().option("split=16/7"), "add up to 24");
  expectThrow<Muon>({leaf({6, 5, 3, 3})}, RuleOptions().option("split=4/2"), "filters in groups have equal parts");
  expectThrow<Muon>({leaf({24})}, {}, "no matrix and no stack of matrices; put it into a group with the option rule=adamw");
  expectThrow<NorMuon>({leaf({4, 5})}, RuleOptions().option("red_dim=by_shape").option("equal=rows"),
                       "which equal=rows has no form for");
  expectThrow<Muon>({leaf({4, 5})}, RuleOptions().option("red_dim=by_shape"), "has no option 'red_dim=by_shape'");
  expectThrow<Muon>({leaf({4, 5})}, RuleOptions().option("use_muon=false"), "has no option 'use_muon=false'");
}

} // namespace
