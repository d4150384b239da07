// What a storage loses is said, and a file says how its states are stored.
#include "Model.h"

#include <altgrad/optim.h>
#include <torch/serialize.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;
using testing::HasSubstr;

namespace {

struct Warnings : c10::WarningHandler {
  void process(const c10::Warning &warning) override {
    texts.push_back(warning.msg());
  }
  std::vector<std::string> texts;
};

// What two optimizers of a storage say, a step of each.
std::vector<std::string> saidOf(const std::string &storage,
                                const RuleOptions &options,
                                at::ScalarType type = at::kFloat) {
  Warnings said;
  c10::WarningUtils::WarningHandlerGuard guard(&said);
  for (int i = 0; i < 2; ++i) {
    RuleOptimizer optimizer({leaf({5000}, type)},
                            RuleSpec("adamw").storage(storage), options);
    optimizer.step();
    optimizer.step();
  }
  return said.texts;
}

TEST(Storage, SaysOnceWhatItLoses) {
  auto said = saidOf("v=bf16", {});
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("storage \"v=bf16\": state 'v' in bf16 stands "
                                 "still where 1 - beta2 is below 0.00195"));
  EXPECT_TRUE(saidOf("v=bf16", {}).empty());
  EXPECT_EQ(saidOf("v=bf16 m=bf16", {}).size(), 1u) << "another storage";
}

TEST(Storage, HyperParametersDecideWhatItLoses) {
  EXPECT_TRUE(
      saidOf("v=bf16 m=f32", RuleOptions().hyper("beta2", 0.99)).empty());
  EXPECT_TRUE(saidOf("", {}, at::kBFloat16).empty()) << "it is torch's own";
  EXPECT_TRUE(saidOf("m=f32", {}, at::kBFloat16).empty());
  EXPECT_TRUE(saidOf("v=bf16,stochastic", {}).empty());
}

TEST(Storage, TheValuesOfEveryGroupCount) {
  Warnings said;
  c10::WarningUtils::WarningHandlerGuard guard(&said);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  for (double beta2 : {0.9, 0.9999})
    groups.emplace_back(
        std::vector<Tensor>{leaf({5000})},
        std::make_unique<RuleOptions>(RuleOptions().hyper("beta2", beta2)));
  RuleOptimizer optimizer(groups, RuleSpec("adamw").storage("states=bf16"));
  optimizer.step();
  ASSERT_EQ(said.texts.size(), 1u);
  EXPECT_THAT(said.texts[0], HasSubstr("1 - beta2"));
}

//===-- What a file says -----------------------------------------------------//

void copyThroughAFile(RuleOptimizer &from, RuleOptimizer &to) {
  std::stringstream file;
  torch::save(from, file);
  torch::load(to, file);
}

// Whether a file of the one storage goes into an optimizer of the other one.
std::string refusal(const std::string &from, const std::string &to) {
  Tensor param = leaf({5000}), other = twin(param);
  RuleOptimizer run({param}, RuleSpec("adamw").storage(from)),
      next({other}, RuleSpec("adamw").storage(to));
  run.step();
  try {
    copyThroughAFile(run, next);
  } catch (const c10::Error &error) {
    EXPECT_TRUE(next.state().empty());
    return error.what();
  }
  next.step();
  return "";
}

TEST(Storage, CodesOfAnotherFormatAreRefused) {
  for (auto &[from, to] : {std::pair{"m=altgrad.e4m3", "m=altgrad.e3m4"},
                           {"m=altgrad.e4m3", ""},
                           {"master=f32", "master=bf16+i16"},
                           {"master=bf16+i16", ""},
                           {"states=bnb8u:256 m=bnb8:256", "states=bnb8u:256"},
                           {"m=int8:32:f16,softsign", "m=int8:32:f16"},
                           {"v=uint8:32:f16", "v=uint8:32:f16,sqrt"},
                           {"states=f32 master=f32", "states=f32"},
                           {"m=ocp.e4m3fn:256", "m=ocp.e4m3fn:128"}})
    EXPECT_THAT(refusal(from, to),
                testing::AllOf(HasSubstr(from), HasSubstr(to),
                               HasSubstr("the file's states are stored as")));
  EXPECT_THAT(refusal("m=bnb8:256", "m=bnb8u:256"),
              HasSubstr("stored as \"m=bnb8:256\", and this optimizer's as "
                        "\"m=bnb8u:256\""));
}

// exp_avg is the key of a state, and m its rule's name for it.
TEST(Storage, AStateHasItsKeyAndItsName) {
  for (const char *storage : {"exp_avg=bf16", "m=bf16"}) {
    const Tensor param = leaf({64});
    AdamW optimizer({param}, AdamWOptions(0.1), RuleSpec().storage(storage));
    param.mutable_grad() = at::ones({64});
    optimizer.step();
    const auto &state = static_cast<const RuleParamState &>(*optimizer.state().at(param.unsafeGetTensorImpl()));
    EXPECT_EQ(state.tensor("exp_avg").scalar_type(), at::kBFloat16) << storage;
    EXPECT_EQ(state.tensor("exp_avg_sq").scalar_type(), at::kFloat);
    torch::serialize::OutputArchive archive;
    optimizer.save(archive);
    std::stringstream file;
    archive.save_to(file);
    torch::serialize::InputArchive read;
    read.load_from(file);
    c10::IValue said;
    read.read("storage", said);
    EXPECT_EQ(said.toStringRef(), "exp_avg=bf16") << "what a file says can be given again";
  }
  try {
    AdamW optimizer({leaf({64})}, AdamWOptions(), RuleSpec().storage("exp_avg=bf16 m=f32"));
    ADD_FAILURE();
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what(), HasSubstr("storage names state 'exp_avg' twice, as 'm', too; leave one out"));
  }
}

TEST(Storage, WhatIsStoredAlikeIsLoaded) {
  for (auto &[from, to] :
       {std::pair{"m=bnb8:256 v=bnb8u:256", "states=bnb8u:256 m=bnb8:256"},
        {"", ""},
        {"m=bf16", ""},
        {"m=bf16,stochastic", "m=bf16"},
        {"m=ocp.e4m3fn:256 copy=bf16", "m=ocp.e4m3fn:256"}})
    EXPECT_EQ(refusal(from, to), "") << from << " into " << to;
}

TEST(Storage, RowsOfStatesBesideColumnsAreWholeBlocks) {
  Tensor param = leaf({64, 192});
  RuleOptimizer optimizer(
      {param},
      RuleSpec("adamw").storage("states=ocp.e4m3fn:128 copy=mxfp8,both"));
  try {
    optimizer.step();
    ADD_FAILURE() << "not refused";
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what(),
                HasSubstr("parameter 0 of group 0 of shape (64, 192) and strides (192, 1) has rows of 192 elements, "
                          "which is no multiple of the 128 in a block of its states"));
  }
  EXPECT_TRUE(optimizer.state().empty());
}

TEST(Storage, ACopyThatTorchHasNoTypeForIsRefused) {
  try {
    RuleOptimizer optimizer({leaf({64})},
                            RuleSpec("adamw").storage("copy=altgrad.e3m4"));
    ADD_FAILURE() << "not refused";
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what(),
                HasSubstr("copy=altgrad.e3m4, for which torch has no dtype"));
  }
}

// What a file of `from` with another entry does to an optimizer: nothing.
void refuses(const RuleSpec &spec, const char *name, const Tensor &value,
             const std::string &words) {
  Tensor param = leaf({64}), other = twin(param);
  RuleOptimizer from({param}, spec, RuleOptions(0.5)),
      to({other}, spec, RuleOptions(0.1));
  from.step();
  torch::serialize::OutputArchive archive;
  torch::optim::serialize<RuleParamState, RuleOptions>(archive, from);
  archive.write(name, value, /*is_buffer=*/true);
  std::stringstream file;
  archive.save_to(file);
  try {
    torch::load(to, file);
    ADD_FAILURE() << "not refused: " << name;
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what(), HasSubstr(words));
  }
  EXPECT_TRUE(to.state().empty());
  EXPECT_EQ(to.param_groups()[0].options().get_lr(), 0.1);
}

TEST(Storage, AFileThatIsRefusedChangesNothing) {
  refuses(RuleSpec("adamw").max_grad_norm(5).clip("percentile"), "norm_history",
          at::zeros({3}), "norm_history of Float with sizes [3]");
  std::vector<std::unique_ptr<RuleOptimizer>> two;
  for (int64_t count : {1, 2}) {
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(std::vector<Tensor>{leaf({64})});
    groups.emplace_back(std::vector<Tensor>(size_t(count)));
    for (Tensor &param : groups[1].params())
      param = leaf({3});
    two.push_back(std::make_unique<RuleOptimizer>(
        groups, "adamw", RuleOptions(count == 1 ? 0.5 : 0.1)));
  }
  two[0]->step();
  EXPECT_ANY_THROW(copyThroughAFile(*two[0], *two[1]));
  EXPECT_TRUE(two[1]->state().empty());
  EXPECT_EQ(two[1]->param_groups()[0].options().get_lr(), 0.1);
}

TEST(Storage, AFileThatSaysNothingOfItIsLoaded) {
  Tensor param = leaf({5000}), other = twin(param);
  RuleOptimizer plain({param}, "adamw"),
      next({other}, RuleSpec("adamw").storage("m=f32"));
  plain.step();
  copyThroughAFile(plain, next);
  next.step();
  EXPECT_EQ(next.state().size(), 1u);
}

} // namespace
