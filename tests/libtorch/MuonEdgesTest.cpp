// Muon and NorMuon for LibTorch where groups, gradients and parameters change between steps.
#include "Model.h"
#include "core/altgrad_core.h"

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
  Muon changing(std::vector<Tensor>{param}, splitBy("split=12")),
      whole(std::vector<Tensor>{other}, splitBy("split=12"));
  changing.step(), whole.step();
  auto &options = static_cast<RuleOptions &>(changing.param_groups()[0].options());
  options.option("split=16/8"); // instead of the 12
  EXPECT_EQ(options.options().count("split=12"), 0u);
  Muon fresh(std::vector<Tensor>{other}, splitBy("split=16/8"));
  std::stringstream file;
  torch::save(whole, file);
  torch::load(fresh, file);
  static_cast<RuleOptions &>(fresh.param_groups()[0].options()).option("split=16/8");
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

std::vector<Tensor> twinsOf(const std::vector<Tensor> &params) {
  std::vector<Tensor> twins;
  for (const Tensor &param : params)
    twins.push_back(twin(param));
  return twins;
}

// torch's products, of which the one with the number `left` has a NaN.
int32_t wrongProduct(const altgrad_gemm *gemm, void *left) {
  const int32_t status = altgrad_core_multiply(gemm, nullptr);
  if ((*static_cast<int *>(left))-- == 0)
    *static_cast<uint16_t *>(gemm->c) = 0x7FC0; // of bfloat16
  return status;
}

TEST(MuonEdges, AWrongProductLeavesEverythingAndAGpuCountsTheStep) {
  const bool isGpu = getenv("ALTGRAD_STANDS_FOR_CUDA");
  at::manual_seed(5);
  std::vector<Tensor> params{leaf({24, 40}), leaf({2, 8, 16}), leaf({8})}, others = twinsOf(params);
  const auto options = RuleOptions(0.02).use_muon([](const Tensor &param) { return param.dim() > 1; });
  auto one = std::make_unique<Muon>(params, options);
  Muon other(others, options);
  one->step(), other.step();
  for (int number : {0, 7}) {
    altgrad_set_gemm(nullptr, wrongProduct, &number);
    try {
      one->step();
      EXPECT_TRUE(isGpu);
    } catch (const c10::Error &) {
      EXPECT_FALSE(isGpu);
    }
    altgrad_set_gemm(nullptr, altgrad_core_multiply, nullptr);
    EXPECT_TRUE(sameBits(params, others));
    std::stringstream file;
    torch::save(*one, file);
    one = std::make_unique<Muon>(params, options);
    torch::load(*one, file);
  }
  EXPECT_EQ(one->skipped_steps().item<int64_t>(), isGpu ? 2 : 0);
  one->step(), other.step();
  EXPECT_TRUE(sameBits(params, others));
  EXPECT_EQ(one->skipped_steps().item<int64_t>(), isGpu ? 2 : 0);
  EXPECT_EQ(other.skipped_steps().item<int64_t>(), 0);
}

TEST(MuonEdges, AFunctionSaysOfEachParameterWhetherItTakesMuon) {
  at::manual_seed(6);
  std::vector<Tensor> params{leaf({24}), leaf({24, 16}), leaf({50, 8}), leaf({3, 8, 8}), leaf({12})};
  std::vector<Tensor> others = twinsOf(params), first(params.begin(), params.begin() + 4);
  const auto options =
      RuleOptions(0.02).hyper("momentum", 0.9).hyper("beta1", 0.8).option("in=f32").use_muon([](const Tensor &param) {
        return param.dim() > 1 && param.size(0) < 50;
      });
  auto both = std::make_unique<Muon>(first, options);
  EXPECT_EQ(both->param_groups()[0].params().size(), 2u);
  EXPECT_EQ(both->param_groups()[1].params().size(), 2u);
  both->add_param_group(Group({params[4]}, std::make_unique<RuleOptions>(3e-3))); // has the function, too
  const auto adamw = RuleOptions(0.02).hyper("beta2", 0.95).hyper("decay", 0.1).hyper("eps", 1e-7);
  Muon muon({others[1], others[3]}, RuleOptions(0.02).hyper("momentum", 0.9).option("in=f32"));
  RuleOptimizer plain({others[0], others[2]}, "adamw", RuleOptions(adamw).hyper("beta1", 0.8).hyper("lr", 1e-3));
  RuleOptimizer added({others[4]}, "adamw", RuleOptions(adamw).hyper("lr", 3e-3));
  for (int step = 0; step < 3; ++step) {
    both->step(), muon.step(), plain.step(), added.step();
    std::stringstream file;
    torch::save(*both, file);
    both = std::make_unique<Muon>(first, options);
    both->add_param_group(Group({params[4]}));
    torch::load(*both, file);
  }
  EXPECT_TRUE(sameBits(params, others));
  EXPECT_EQ(both->param_groups().size(), 3u);
}

TEST(MuonEdges, AGroupThatIsNewIsSavedAsTheNextStepHasIt) {
  at::manual_seed(9);
  for (const char *profile : {"", "dion"}) {
    const std::vector<Tensor> params{leaf({24, 16}), leaf({16, 40}), leaf({24})}, others = twinsOf(params);
    auto make = [&](const std::vector<Tensor> &of) {
      return std::make_unique<Muon>(std::vector<Tensor>{of[0]}, RuleOptions(0.02), RuleSpec().profile(profile));
    };
    auto add = [&](Muon &optimizer, const std::vector<Tensor> &of) {
      auto options = std::make_unique<RuleOptions>(0.05);
      if (*profile)
        return optimizer.add_param_group(Group({of[1]}, std::move(options)));
      options->use_muon([](const Tensor &param) { return param.dim() > 1; });
      optimizer.add_param_group(Group({of[2], of[1]}, std::move(options)));
    };
    auto one = make(params), two = make(others);
    one->step(), two->step();
    add(*one, params), add(*two, others);
    std::stringstream file;
    torch::save(*one, file);
    one = make(params);
    add(*one, params);
    torch::load(*one, file);
    for (int step = 0; step < 2; ++step)
      one->step(), two->step();
    EXPECT_TRUE(sameBits(params, others)) << profile;
  }
}

RuleOptions saying(double lr, std::vector<const char *> words) {
  RuleOptions options(lr);
  for (const char *word : words)
    options.option(word);
  return options;
}

// The words by which each differs from torch's, written by hand, and what AdamW beside it has.
const std::map<std::string, std::pair<RuleOptions, RuleOptions>> profiles{
    {"torch", {RuleOptions(1e-3), RuleOptions(1e-3)}},
    {"kj", {saying(0.02, {"length=added"}).hyper("decay", 0), RuleOptions(3e-4).hyper("eps", 1e-10)}},
    {"dion",
     {saying(0.01, {"plain", "coefficients=polar_dion", "length=added", "scale=unclamped", "flatten=false"})
          .hyper("decay", 0.01)
          .hyper("eps", 1e-8),
      RuleOptions(0.01)}},
    {"moonlight", {saying(1e-3, {"length=added", "scale=match_rms"}), RuleOptions(1e-3).hyper("eps", 1e-8)}},
    {"emerging",
     {saying(3e-4, {"plain", "coefficients=you", "scale=spectral"}).hyper("decay", 0.01).hyper("eps", 1e-15),
      RuleOptions(3e-4).hyper("eps", 1e-8)}},
    {"vibetensor", {saying(0.02, {"length=added", "flatten=true"}).hyper("decay", 0.01), RuleOptions(0.02)}}};

TEST(MuonEdges, AProfileIsTheWordsOfItsSource) {
  at::manual_seed(7);
  for (const auto &[name, found] : profiles) {
    const auto &[words, beside] = found;
    std::vector<Tensor> params{leaf({24, 40}), leaf({40, 24}), leaf({24})}, others = twinsOf(params);
    const RuleSpec spec = RuleSpec().profile(name);
    auto grouped = [&](const std::vector<Tensor> &of, const RuleOptions &second, RuleOptions third) {
      std::vector<Group> groups{Group({of[0]})};
      groups.emplace_back(std::vector<Tensor>{of[1]}, std::make_unique<RuleOptions>(second));
      groups.emplace_back(std::vector<Tensor>{of[2]},
                          std::make_unique<RuleOptions>(third.option("rule=adamw")));
      return groups;
    };
    Muon one(grouped(params, RuleOptions(0.05), {}), {}, spec),
        two(grouped(others, RuleOptions(words).hyper("lr", 0.05), beside), words);
    one.step(), two.step();
    EXPECT_TRUE(sameBits(params, others)) << name;
    Tensor param = leaf({24, 40}), other = twin(param);
    const auto own = RuleOptions(0.3).hyper("decay", 0.2).option("length=clamped").option("scale=original");
    Muon(std::vector<Tensor>{param}, own, spec).step();
    auto wanted = RuleOptions(words).hyper("lr", 0.3).hyper("decay", 0.2).option("length=added", false);
    for (const char *word : {"scale=unclamped", "scale=match_rms", "scale=spectral"})
      wanted.option(word, false);
    Muon(std::vector<Tensor>{other}, wanted).step();
    EXPECT_TRUE(sameBits(param, other)) << name;
  }
}

template <typename Make> void expectWords(const Make &make, const char *words) {
  try {
    make();
    FAIL() << "nothing was refused";
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what_without_backtrace(), testing::HasSubstr(words));
  }
}

TEST(MuonEdges, WhatIsNoMatrixIsRefusedWhenItIsGiven) {
  const std::vector<Tensor> vectors{leaf({8}), leaf({}), leaf({3, 4, 6})};
  for (const char *stacks : {"", "over=unit"})
    for (const Tensor &vector : vectors) {
      const bool stacked = *stacks && vector.dim() > 2;
      const auto options = *stacks ? RuleOptions(0.1).option(stacks) : RuleOptions(0.1);
      const Tensor matrix = leaf({4, 6}), none = leaf({0, 4});
      RuleOptimizer optimizer({matrix, none}, RuleSpec("muon"), options), other({twin(matrix)}, RuleSpec("muon"), options);
      if (stacked) {
        optimizer.add_param_group(Group({vector}));
        continue;
      }
      const char *words = *stacks ? "takes parameters of two dimensions or more; give the others to an optimizer"
                                  : "takes parameters of two dimensions; give the others to an optimizer";
      expectWords([&] { RuleOptimizer({matrix, vector}, RuleSpec("muon"), options); }, words);
      expectWords([&] { RuleOptimizer({matrix, vector}, RuleSpec("muon"), options); }, "parameter 1 of group 0");
      expectWords([&] { optimizer.add_param_group(Group({twin(matrix), vector})); }, "parameter 1 of group 1");
      EXPECT_EQ(optimizer.param_groups().size(), 1u);
      optimizer.step(), other.step();
      EXPECT_TRUE(sameBits(matrix, other.param_groups()[0].params()[0]));
      optimizer.add_param_group(Group({twin(matrix)}));
      optimizer.step();
    }
}

TEST(MuonEdges, AGroupIsTakenAsItsOptionsSay) {
  const Tensor matrix = leaf({4, 6}), vector = leaf({8}), filters = leaf({4, 2, 3, 3});
  Muon plain(std::vector<Tensor>{matrix}), flat(std::vector<Tensor>{matrix}, RuleOptions(0.1), RuleSpec().profile("kj"));
  expectWords([&] { plain.add_param_group(Group({vector})); }, "parameter 0 of group 1");
  EXPECT_EQ(plain.param_groups().size(), 1u);
  const auto adamw = RuleOptions(0.1).option("rule=adamw");
  for (RuleOptimizer *optimizer : {(RuleOptimizer *)&plain, (RuleOptimizer *)&flat})
    optimizer->add_param_group(Group({vector}, std::make_unique<RuleOptions>(adamw)));
  flat.add_param_group(Group({filters})); // a matrix with a row for each, as Jordan has them
  plain.step(), flat.step();
  const auto asked = RuleOptions(0.1).use_muon([](const Tensor &param) { return param.dim() > 1; });
  Muon parted(std::vector<Tensor>{matrix}, asked);
  parted.add_param_group(Group({leaf({4, 6}), vector}));
  parted.step();
  EXPECT_EQ(parted.param_groups().size(), 3u);
}

TEST(MuonEdges, AFunctionsGroupOfAdamWHasItsOwnRate) {
  auto rates = [](const RuleOptions &options, RuleSpec spec = {}) {
    auto takes = [](const Tensor &param) { return param.dim() > 1; };
    Muon optimizer({leaf({4, 5}), leaf({3})}, RuleOptions(options).use_muon(takes, options.adamw_lr()), spec);
    return std::pair(optimizer.param_groups()[0].options().get_lr(), optimizer.param_groups()[1].options().get_lr());
  };
  EXPECT_EQ(rates(RuleOptions(0.05)).second, 1e-3);
  EXPECT_EQ(rates(RuleOptions(0.05).use_muon({}, 3e-4)).second, 3e-4);
  EXPECT_EQ(rates(RuleOptions(0.05), RuleSpec().profile("kj")).second, 3e-4);
}

TEST(MuonEdges, ProfilesAndFunctionsThatAreNoneOfTheirsAreRefused) {
  const std::vector<Tensor> params{leaf({4, 5})};
  expectWords([&] { Muon(params, {}, RuleSpec().profile("adam")); },
              "profile is 'adam', none of 'torch', 'kj', 'dion', 'moonlight', 'emerging', 'vibetensor'");
  expectWords([&] { NorMuon(params, {}, RuleSpec().profile("kj")); }, "profile");
  const RuleOptions::Takes all = [](const Tensor &) { return true; };
  expectWords([&] { Lion(params, RuleOptions(0.1).use_muon(all)); },
              "group 0 has use_muon, which is for Muon and NorMuon");
  expectWords([&] { Muon(params, RuleOptions(0.1).option("rule=adamw").use_muon(all)); },
              "without an option rule=NAME");
  expectWords([&] { Muon(params, RuleOptions(0.1).hyper("beta3", 0.9).use_muon(all)); }, "no hyper-parameter 'beta3'");
  expectWords([&] { Muon({leaf({3})}, RuleOptions(0.1).use_muon(all)); }, "parameter 0 of group 0");
}

} // namespace
