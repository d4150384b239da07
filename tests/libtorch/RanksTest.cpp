// Ranks that step together: threads of one process, over c10d's interface.
#include "Model.h"

#include <altgrad/amp.h>
#include <altgrad/distributed.h>
#include <altgrad/optim.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

constexpr int ranks = 2;

// This torch has no headers of gloo: a backend whose tensors travel through a store.
struct ByStore : c10d::Backend {
  ByStore(c10::intrusive_ptr<c10d::HashStore> store, int rank) : Backend(rank, ranks), store(std::move(store)) {}

  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<Tensor>> &out, std::vector<Tensor> &in,
                                           const c10d::AllgatherOptions &) override {
    auto keyOf = [&](int rank) { return std::to_string(count) + "/" + std::to_string(rank); };
    auto *bytes = static_cast<const uint8_t *>(in[0].const_data_ptr());
    store->set(keyOf(getRank()), std::vector<uint8_t>(bytes, bytes + in[0].nbytes()));
    for (int rank = 0; rank < ranks; ++rank)
      std::memcpy(out[0][size_t(rank)].data_ptr(), store->get(keyOf(rank)).data(), in[0].nbytes());
    ++count;
    struct Done : c10d::Work {
      bool wait(std::chrono::milliseconds) override { return true; }
    };
    return c10::make_intrusive<Done>();
  }

  c10::intrusive_ptr<c10d::HashStore> store;
  int64_t count = 0;
};

// `body(all_gather, rank)` in a thread for each rank.
template <typename Body> void onRanks(const Body &body) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  store->setTimeout(std::chrono::seconds(60));
  std::vector<std::future<void>> done;
  for (int rank = 0; rank < ranks; ++rank)
    done.push_back(std::async(std::launch::async, [&, rank] {
      body(altgrad::distributed::over(c10::make_intrusive<ByStore>(store, rank)), rank);
    }));
  for (auto &of : done)
    of.get();
}

// What all ranks have together. Squares of small integers add up to the same number in any order.
struct Whole {
  std::vector<Tensor> params;
  std::vector<std::vector<Tensor>> grads; // of each step
};
Whole made(at::ScalarType type) {
  at::manual_seed(2);
  Whole of{{at::randn({9, 512}).to(type), at::randn({7, 3}).to(type)}, {}};
  for (int step = 0; step < 3; ++step) {
    of.grads.emplace_back();
    for (const Tensor &param : of.params)
      of.grads.back().push_back(at::randint(-8, 9, param.sizes()).to(type));
  }
  return of;
}

// 4 rows of rank 0, and the others of rank 1; -1 has all.
Tensor partOf(const Tensor &of, int rank) {
  return rank < 0 ? of.clone() : rank ? of.narrow(0, 4, of.size(0) - 4).clone() : of.narrow(0, 0, 4).clone();
}

struct Stepped {
  std::vector<Tensor> params;
  double norm;
};
Stepped stepped(const Whole &whole, const RuleSpec &spec, int rank) {
  Stepped run;
  for (const Tensor &of : whole.params)
    run.params.push_back(partOf(of, rank).requires_grad_());
  RuleOptimizer optimizer(run.params, spec, RuleOptions(0.01));
  for (size_t i = 0; rank >= 0 && i < run.params.size(); ++i)
    optimizer.set_shard(run.params[i], whole.params[i].sizes().vec(), rank * 4 * whole.params[i].size(1));
  for (const auto &grads : whole.grads) {
    for (size_t i = 0; i < grads.size(); ++i)
      run.params[i].mutable_grad() = grads[i].defined() ? partOf(grads[i], rank) : Tensor();
    optimizer.step();
  }
  run.norm = optimizer.last_grad_norm();
  return run;
}

// Stochastic rounding, blocks with scales, the norm of all ranks and its percentile: the bits of one process.
TEST(Ranks, PartsHaveTheBitsOfTheWhole) {
  for (const char *storage : {"param=bf16,stochastic", "states=bnb8u:256 m=bnb8:256", "master=f32"})
    for (const char *clip : {"", "percentile"}) {
      const Whole whole = made(storage[0] == 's' ? at::kFloat : at::kBFloat16);
      const RuleSpec spec = RuleSpec("adamw").storage(storage).seed(3).max_grad_norm(0.5).clip(clip);
      const Stepped one = stepped(whole, spec, -1);
      std::vector<Stepped> parts(ranks);
      onRanks([&](const RuleSpec::all_gather_t &gather, int rank) {
        parts[size_t(rank)] = stepped(whole, RuleSpec(spec).all_gather(gather), rank);
      });
      for (const Stepped &part : parts)
        EXPECT_EQ(part.norm, one.norm) << storage;
      for (size_t i = 0; i < one.params.size(); ++i)
        EXPECT_TRUE(
            sameBits(at::cat({parts[0].params[i].detach(), parts[1].params[i].detach()}), one.params[i].detach()))
            << storage << ", parameter " << i;
    }
}

// In the order of ranks: f32 sums of the parts, added in f64. One tensor has no gradient in the second step.
TEST(Ranks, SumsOverATensorAreOfAllItsParts) {
  for (const RuleSpec &spec : {RuleSpec("lamb").max_grad_norm(1), RuleSpec("sgd").max_grad_norm(0.01).clip("agc")}) {
    Whole whole = made(at::kFloat);
    whole.grads[1][0] = Tensor();
    const Stepped one = stepped(whole, spec, -1);
    std::vector<Stepped> parts(ranks);
    onRanks([&](const RuleSpec::all_gather_t &gather, int rank) {
      parts[size_t(rank)] = stepped(whole, RuleSpec(spec).all_gather(gather), rank);
    });
    for (size_t i = 0; i < one.params.size(); ++i)
      EXPECT_TRUE(at::allclose(at::cat({parts[0].params[i], parts[1].params[i]}), one.params[i], 1e-5, 1e-7)) << i;
  }
}

// Rank 1 finds the infinity, in the step or before it; rank 0 has no gradient in the last two.
TEST(Ranks, OneVerdictSkipsTheStepOfAll) {
  for (bool before : {false, true})
    onRanks([before](const RuleSpec::all_gather_t &gather, int rank) {
      Tensor param = at::ones({5}).requires_grad_();
      RuleOptimizer optimizer({param}, RuleSpec("sgd").max_grad_norm(100).all_gather(gather), RuleOptions(0.5));
      altgrad::amp::GradScaler scaler(altgrad::amp::GradScalerOptions().init_scale(8));
      scaler.scale(at::ones({}));
      for (bool spoiled : {false, true, false}) {
        param.mutable_grad() = at::full({5}, spoiled && rank ? INFINITY : 8.0f);
        if (before)
          scaler.unscale_(optimizer);
        scaler.step(optimizer);
        scaler.update();
      }
      EXPECT_EQ(scaler.get_scale(), 4);
      EXPECT_EQ(optimizer.skipped_steps().item<int64_t>(), 1);
      EXPECT_TRUE(at::equal(param.detach(), at::full({5}, 1 - 0.5f - 1.0f)));
      EXPECT_FLOAT_EQ(float(optimizer.last_grad_norm()), float(2 * std::sqrt(10)));
      param.mutable_grad() = rank ? at::full({5}, 4.0f) : Tensor();
      optimizer.step();
      if (rank) {
        EXPECT_FLOAT_EQ(float(optimizer.last_grad_norm()), float(4 * std::sqrt(5)));
        param.mutable_grad().fill_(INFINITY);
      }
      scaler.step(optimizer);
      scaler.update();
      EXPECT_EQ(scaler.get_scale(), 2);
      EXPECT_EQ(optimizer.skipped_steps().item<int64_t>(), 2);
    });
}

// Rank 0 has parameters of two types, and stops as often as rank 1, which has one: all as in one process.
TEST(Ranks, RanksWithParametersOfOtherTypesStepTogether) {
  auto run = [](const RuleSpec::all_gather_t &gather, int rank) {
    std::vector<Tensor> all{at::ones({3}), at::ones({4}, at::kBFloat16), at::ones({5})};
    std::vector<Tensor> mine(rank == 1 ? all.begin() + 2 : all.begin(), rank == 0 ? all.begin() + 2 : all.end());
    for (Tensor &param : mine)
      param.requires_grad_();
    RuleOptimizer optimizer(mine, RuleSpec("sgd").max_grad_norm(2).all_gather(gather), RuleOptions(0.5));
    altgrad::amp::GradScaler scaler(altgrad::amp::GradScalerOptions().init_scale(8).growth_interval(1));
    scaler.scale(at::ones({}));
    for (int step = 0; step < 3; ++step) {
      for (Tensor &param : mine)
        param.mutable_grad() =
            at::full_like(param, step == 1 && param.numel() == 4 ? INFINITY : 8.0f, param.options()).detach();
      scaler.step(optimizer);
      scaler.update();
    }
    EXPECT_EQ(scaler.get_scale(), 16);
    mine.push_back(optimizer.grad_norm());
    return mine;
  };
  std::vector<Tensor> one = run(nullptr, -1), parts[ranks];
  onRanks([&](const RuleSpec::all_gather_t &gather, int rank) { parts[rank] = run(gather, rank); });
  for (size_t i = 0; i < one.size(); ++i)
    EXPECT_TRUE(sameBits(i < 2 ? parts[0][i] : parts[1][i - 2], one[i])) << i;
  EXPECT_TRUE(sameBits(parts[0][2], one[3]));
}

TEST(Ranks, PartsThatNeedOtherRanksElementsAreRefused) {
  auto refusal = [](const RuleSpec &spec, std::vector<int64_t> sizes, int64_t offset) -> std::string {
    Tensor param = leaf(sizes);
    sizes[0] += 50;
    RuleOptimizer optimizer({param}, spec);
    try {
      optimizer.set_shard(param, sizes, offset);
      optimizer.step();
    } catch (const c10::ValueError &error) {
      EXPECT_TRUE(optimizer.state().empty());
      return error.what();
    }
    return "";
  };
  using testing::HasSubstr;
  EXPECT_EQ(refusal("adamw", {60, 128}, 128), "");
  EXPECT_THAT(refusal("adamw", {60, 128}, 51 * 128), HasSubstr("does not lie in a whole of sizes [110, 128]"));
  EXPECT_THAT(refusal("lamb", {60, 128}, 128), HasSubstr("its step sums over the whole tensor, of which other ranks have parts: give RuleSpec::all_gather"));
  EXPECT_THAT(refusal(RuleSpec("adamw").max_grad_norm(0.1).clip("agc"), {60, 128}, 0),
              HasSubstr("sums over the whole"));
  EXPECT_THAT(refusal("muon", {60, 128}, 0), HasSubstr("multiplies whole matrices"));
  EXPECT_THAT(refusal(RuleSpec("adamw").storage("states=bnb8u:256 m=bnb8:256"), {60, 128}, 128),
              HasSubstr("has blocks of 256 elements, which the part cuts"));
}

} // namespace
