// Files of one storage in an optimizer of another.
#include "Model.h"

#include <altgrad/optim.h>
#include <torch/serialize.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

const RuleParamState &stateOf(RuleOptimizer &optimizer, const Tensor &param) {
  return static_cast<const RuleParamState &>(*optimizer.state().at(param.unsafeGetTensorImpl()));
}

void moved(const torch::optim::Optimizer &from, RuleOptimizer &to) {
  std::stringstream file;
  torch::save(from, file);
  torch::serialize::InputArchive archive;
  archive.load_from(file);
  transcode(archive, to);
}

void regrad(const Tensor &param) {
  at::manual_seed(4);
  param.mutable_grad() = at::randn_like(param);
}

// The largest number of a block is 448 of its scale.
Tensor scaledByTorch(const Tensor &numbers, Tensor &scales) {
  Tensor blocks = numbers.flatten().view({-1, 128});
  scales = std::get<0>(blocks.abs().max(1, true)) / 448;
  return (blocks * scales.reciprocal()).to(at::kFloat8_e4m3fn);
}

TEST(Transcode, NumbersAreRoundedOnceAndCodesAreRead) {
  Tensor wide = leaf({64, 66}), narrow = twin(wide), small = leaf({40}), other = twin(small);
  AdamW from({wide, small});
  from.step();
  AdamW to({narrow, other}, {}, RuleSpec().storage("m=ocp.e4m3fn:128 v=bf16")), back({twin(wide), twin(small)});
  moved(from, to);
  Tensor m = stateOf(from, wide).tensor("exp_avg"), scales, codes = scaledByTorch(m, scales);
  const RuleParamState &state = stateOf(to, narrow);
  EXPECT_TRUE(sameBits(state.tensor("exp_avg_scale"), scales.flatten()));
  EXPECT_TRUE(at::equal(state.tensor("exp_avg").flatten().to(at::kFloat), codes.flatten().to(at::kFloat)));
  EXPECT_TRUE(at::equal(state.tensor("exp_avg_sq"), stateOf(from, wide).tensor("exp_avg_sq").to(at::kBFloat16)));
  EXPECT_EQ(stateOf(to, other).tensor("exp_avg").scalar_type(), at::kFloat);
  EXPECT_EQ(state.tensor("step").item<int64_t>(), 1);
  moved(to, back);
  const Tensor &again = back.param_groups()[0].params()[0];
  EXPECT_TRUE(at::equal(stateOf(back, again).tensor("exp_avg").flatten(), (codes.to(at::kFloat) * scales).flatten()));
  EXPECT_FALSE(stateOf(back, again).tensor("exp_avg_scale").defined());
  to.step();
  back.step();
}

// What an optimizer without a storage makes of a file.
std::map<std::string, Tensor> read(RuleOptimizer &from, const Tensor &param) {
  Tensor next = twin(param);
  RuleOptimizer plain({next}, "adamw");
  moved(from, plain);
  return stateOf(plain, next).tensors();
}

TEST(Transcode, EveryStorageGoesIntoEveryOther) {
  std::vector<const char *> storages{"",
                                     "states=bnb8u:256,keep_positive m=bnb8:256",
                                     "m=torchao4:128 v=torchao4u:128",
                                     "m=int8:32:f16,softsign v=uint8:32:f16,sqrt",
                                     "m=altgrad.e4m3 v=ocp.e5m2",
                                     "states=bf16,stochastic",
                                     "m=ocp.e4m3fn:32:ocp.e8m0 copy=mxfp8"};
  for (const char *first : storages)
    for (const char *second : storages) {
      Tensor param = leaf({64, 96}), next = twin(param);
      RuleOptimizer from({param}, RuleSpec("adamw").storage(first)), to({next}, RuleSpec("adamw").storage(second));
      from.step();
      moved(from, to);
      auto before = read(from, param), after = read(to, next);
      for (const char *key : {"m", "v"}) {
        const float largest = before[key].abs().max().item<float>(),
                    off = (before[key] - after[key]).abs().max().item<float>();
        EXPECT_GT(largest, 0);
        EXPECT_LE(off, *second ? 0.12f * largest : 0) << key << ", " << first << " into " << second;
      }
      to.step();
    }
}

// From how many elements on they are there is a part of the storage: files under another number are refused, and converted.
TEST(Transcode, BlocksOfTensorsOfAnySize) {
  Tensor large = leaf({70, 70}), small = leaf({40, 5}), tiny = leaf({9});
  auto spec = [](const char *least) {
    return RuleSpec("lion").storage(std::string("m=ocp.e4m3fn:2048,min_size:") + least);
  };
  RuleOptimizer from({large, small, tiny}, spec("100")), same({twin(large), twin(small), twin(tiny)}, spec("100")),
      wide({twin(large), twin(small), twin(tiny)}, spec("4900")), narrow({twin(large), twin(small), twin(tiny)}, spec("1"));
  from.step();
  EXPECT_EQ(stateOf(from, large).tensor("m_scale").numel(), 3);
  EXPECT_EQ(stateOf(from, small).tensor("m_scale").numel(), 1);
  EXPECT_EQ(stateOf(from, tiny).tensor("m").scalar_type(), at::kFloat);
  std::stringstream file;
  torch::save(from, file);
  torch::load(same, file);
  file.seekg(0);
  EXPECT_THAT([&] { torch::load(wide, file); }, testing::ThrowsMessage<c10::Error>(testing::HasSubstr("min_size:100")));
  moved(from, wide);
  moved(from, narrow);
  auto of = [](RuleOptimizer &to, size_t i) { return stateOf(to, to.param_groups()[0].params()[i]); };
  EXPECT_TRUE(sameBits(of(same, 1).tensor("m"), stateOf(from, small).tensor("m")));
  Tensor numbers = stateOf(from, small).tensor("m").to(at::kFloat) * stateOf(from, small).tensor("m_scale");
  EXPECT_TRUE(at::equal(of(wide, 1).tensor("m"), numbers));
  EXPECT_TRUE(sameBits(of(wide, 0).tensor("m"), stateOf(from, large).tensor("m")));
  EXPECT_EQ(of(narrow, 2).tensor("m_scale").numel(), 1);
}

TEST(Transcode, MastersAreSplitAndJoined) {
  Tensor param = leaf({70, 70}, at::kBFloat16), split = twin(param), joined = twin(param), bytes = twin(param);
  auto spec = [](const char *word) { return RuleSpec("adamw").storage(std::string("states=f32 master=") + word); };
  RuleOptimizer from({param}, spec("f32")), halves({split}, spec("bf16+i16")), whole({joined}, spec("f32")),
      eighths({bytes}, spec("bf16+i8"));
  from.step();
  moved(from, halves);
  const Tensor &master = stateOf(from, param).tensor("master");
  Tensor upper = split.detach().view(at::kShort).to(at::kInt),
         rest = stateOf(halves, split).tensor("remainder").to(at::kInt);
  EXPECT_TRUE(at::equal((upper * 65536 + rest).view(at::kFloat), master));
  joined.set_data(split.detach().clone());
  moved(halves, whole);
  EXPECT_TRUE(sameBits(stateOf(whole, joined).tensor("master"), master));
  bytes.set_data(split.detach().clone());
  moved(halves, eighths);
  EXPECT_EQ(stateOf(eighths, bytes).tensor("remainder").scalar_type(), at::kChar);
  for (RuleOptimizer *optimizer : {&from, &halves, &whole, &eighths}) {
    regrad(optimizer->param_groups()[0].params()[0]);
    optimizer->step();
  }
  EXPECT_TRUE(sameBits(stateOf(whole, joined).tensor("master"), stateOf(from, param).tensor("master")));
}

TEST(Transcode, TorchsFilesAreThoseWithoutAStorage) {
  Tensor param = leaf({64, 64}), next = twin(param);
  torch::optim::AdamW torchs({param}, torch::optim::AdamWOptions(0.1));
  torchs.step();
  AdamW8bit ours({next});
  moved(torchs, ours);
  EXPECT_EQ(stateOf(ours, next).tensor("exp_avg").scalar_type(), at::kByte);
  EXPECT_EQ(ours.param_groups()[0].options().get_lr(), 0.1);
  ours.step();
}

TEST(Transcode, WhatHasNoPlaceIsRefusedAndChangesNothing) {
  Tensor param = leaf({64, 64}, at::kBFloat16), next = twin(param), before = next.detach().clone();
  RuleOptimizer from({param}, RuleSpec("adamw").storage("master=f32")), to({next}, "adamw", RuleOptions(0.5));
  from.step();
  try {
    moved(from, to);
    ADD_FAILURE() << "not refused";
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the storage names none: add master=f32"));
  }
  EXPECT_TRUE(to.state().empty());
  EXPECT_EQ(to.param_groups()[0].options().get_lr(), 0.5);
  EXPECT_TRUE(sameBits(before, next.detach()));
  std::stringstream file;
  torch::save(from, file);
  EXPECT_THROW(torch::load(to, file), c10::Error) << "load goes on to refuse";
}

} // namespace
