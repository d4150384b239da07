// The edges of a step: counts of files, inference mode, forks, what torch's
// functions are handed, numbers that make no sense.
#include "Model.h"

#include <altgrad/amp.h>
#include <altgrad/ops.h>
#include <altgrad/optim.h>

#include <gtest/gtest.h>
#include <atomic>
#include <cstdlib>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <torch/serialize.h>
#include <unistd.h>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

// Whether kernels of GPUs run on the test driver, whose numbers nobody waits
// for.
bool onDriver() { return std::getenv("ALTGRAD_STANDS_FOR_CUDA"); }

RuleParamState &stateOf(torch::optim::Optimizer &optimizer,
                        const Tensor &param) {
  return static_cast<RuleParamState &>(
      *optimizer.state().at(param.unsafeGetTensorImpl()));
}

template <typename Call> std::string wordsOf(const Call &call) {
  try {
    call();
  } catch (const c10::Error &error) {
    return error.what_without_backtrace();
  }
  return "";
}

TEST(Edges, CountsThatCountNothingAreRefused) {
  if (onDriver())
    GTEST_SKIP() << "a count of a GPU is not read";
  for (double count : {-1.0, -5.0, double(INFINITY), double(NAN), 1e30}) {
    Tensor param = leaf({5}), other = leaf({3});
    AdamW optimizer({other, param});
    optimizer.step();
    Tensor before = other.detach().clone();
    stateOf(optimizer, param).tensor("step", at::scalar_tensor(count, at::kFloat));
    EXPECT_NE(wordsOf([&] { optimizer.step(); }).find("'step' of parameter 1"),
              std::string::npos)
        << count;
    EXPECT_TRUE(sameBits(before, other));
  }
}

// The other elements of the matrix are nobody's.
TEST(Edges, ParametersWithGapsStepAsDenseOnes) {
  for (const char *storage : {"", "master=f32", "m=bnb8:256"}) {
    Tensor whole = at::randn({40, 60}, at::kBFloat16), before = whole.clone();
    Tensor gaps = whole.slice(1, 0, 60, 2).requires_grad_();
    Tensor dense = gaps.detach().contiguous().requires_grad_();
    RuleSpec spec = RuleSpec().storage(storage).max_grad_norm(1.0);
    AdamW one({gaps}, AdamWOptions(0.1), spec), other({dense}, AdamWOptions(0.1), spec);
    for (int step = 0; step < 4; ++step) {
      dense.mutable_grad() = at::randn({40, 30}, at::kBFloat16);
      gaps.mutable_grad() = step == 2 ? dense.grad().t().contiguous().t() : dense.grad().clone();
      one.step();
      other.step();
      EXPECT_TRUE(sameBits(gaps.detach().contiguous(), dense)) << storage << " step " << step;
      at::NoGradGuard none;
      gaps.mul_(1.5), dense.mul_(1.5);
    }
    EXPECT_TRUE(at::equal(whole.slice(1, 1, 60, 2), before.slice(1, 1, 60, 2)));
  }
}

TEST(Edges, StatisticsSayWhatAStepDid) {
  std::vector<Tensor> params{leaf({5}), leaf({2}), leaf({30, 3})};
  AdamW optimizer(params, AdamWOptions(0.1), RuleSpec().max_grad_norm(0.5).statistics(true));
  for (int step = 0; step < 3; ++step) {
    std::vector<Tensor> before;
    for (size_t i = 0; i < params.size(); ++i) {
      before.push_back(params[i].detach().clone());
      params[i].mutable_grad() = i == 1 ? Tensor() : at::randn(params[i].sizes());
    }
    optimizer.step();
    auto said = optimizer.statistics();
    for (size_t i : {0, 2}) {
      EXPECT_NEAR(said["grad_norm"][i].item<double>(), params[i].grad().norm().item<double>(), 1e-4);
      EXPECT_NEAR(said["param_norm"][i].item<double>(), before[i].norm().item<double>(), 1e-4);
      EXPECT_NEAR(said["update_norm"][i].item<double>(), (params[i] - before[i]).norm().item<double>(), 1e-4);
      EXPECT_EQ(said["nonfinite"][i].item<double>(), 0);
    }
    EXPECT_TRUE(std::isnan(said["grad_norm"][1].item<double>()));
    EXPECT_EQ(said["steps"].item<int64_t>(), step + 1);
    EXPECT_EQ(said["clipped_steps"].item<int64_t>(), step + 1);
  }
  EXPECT_NE(wordsOf([&] { AdamW(params).statistics(); }).find("made without RuleSpec::statistics"), std::string::npos);
}

TEST(Edges, AStateThatIsPartlyThereIsRefused) {
  for (const char *key : {"exp_avg", "exp_avg_sq", "step"}) {
    Tensor param = leaf({5});
    AdamW optimizer(std::vector<Tensor>{param});
    optimizer.step();
    Tensor before = param.detach().clone();
    stateOf(optimizer, param).tensor(key, Tensor());
    EXPECT_NE(wordsOf([&] { optimizer.step(); }).find(key), std::string::npos);
    EXPECT_TRUE(sameBits(before, param));
  }
}

TEST(Edges, AStepUnderInferenceModeSpoilsNoLaterOne) {
  for (const char *storage : {"", "master=f32 copy=ocp.e4m3fn,delayed:2"}) {
    Tensor param = leaf({5}, at::kBFloat16), other = twin(param);
    RuleSpec spec = RuleSpec("adamw").storage(storage).max_grad_norm(50).clip("percentile");
    AdamW optimizer({param}, AdamWOptions(0.1), spec),
        reference({other}, AdamWOptions(0.1), spec);
    for (bool mode : {true, false, true, false}) {
      c10::InferenceMode guard(mode);
      optimizer.step();
      c10::InferenceMode off(false);
      reference.step();
    }
    EXPECT_TRUE(sameBits(param, other));
    for (auto &[key, value] : stateOf(optimizer, param).tensors())
      EXPECT_FALSE(value.is_inference()) << key;
  }
}

// What torch is handed may end behind its storage, too.
TEST(Edges, OpsRefuseShortStoragesBeforeTorchReadsThem) {
  for (at::ScalarType type : {at::kDouble, at::kFloat}) {
    const double norm = type == at::kDouble ? 2 : 3;
    std::vector<Tensor> params{leaf({100}, type), leaf({100}, type)};
    params[1].grad().storage().unsafeGetStorageImpl()->set_nbytes(64);
    std::vector<Tensor> grads{params[0].grad(), params[1].grad()};
    Tensor before = grads[0].clone();
    std::vector<std::string> words{
        wordsOf([&] { altgrad::ops::clip_grad_norm_(params, 1.0, norm); }),
        wordsOf([&] { altgrad::ops::compute_global_grad_norm(grads, norm); }),
        wordsOf([&] { altgrad::ops::fused_grad_unscale_clip(grads, 1.0, 2.0, true, norm); }),
        wordsOf([&] { altgrad::ops::fused_grad_unscale_clip(grads, 1.0, 2.0, false, norm); })};
    for (const std::string &word : words)
      EXPECT_NE(word.find("of a storage of 64 bytes"), std::string::npos) << word;
    EXPECT_TRUE(sameBits(before, grads[0]));
  }
}

TEST(Edges, SkippedStepsGoOnAfterAResume) {
  auto skip = [](AdamW &optimizer, Tensor &param) {
    altgrad::amp::GradScaler scaler;
    scaler.scale(at::ones({}));
    param.mutable_grad() = at::full_like(param, INFINITY);
    scaler.step(optimizer);
    scaler.update();
  };
  Tensor param = leaf({5}), other = twin(param);
  AdamW optimizer(std::vector<Tensor>{param}), resumed(std::vector<Tensor>{other});
  skip(optimizer, param);
  skip(optimizer, param);
  std::stringstream file;
  torch::save(optimizer, file);
  torch::load(resumed, file);
  EXPECT_EQ(resumed.skipped_steps().item<int64_t>(), 2);
  skip(resumed, other);
  EXPECT_EQ(resumed.skipped_steps().item<int64_t>(), 3);
  EXPECT_EQ(optimizer.skipped_steps().item<int64_t>(), 2);
}

TEST(Edges, NumbersThatMakeNoSenseAreRefused) {
  for (double lr : {-1.0, double(NAN)})
    EXPECT_NE(wordsOf([&] { RuleOptimizer({leaf({5})}, RuleSpec("adamw"), RuleOptions(lr)); })
                  .find("Invalid learning rate"),
              std::string::npos);
  EXPECT_NE(wordsOf([&] {
              altgrad::amp::GradScaler(altgrad::amp::GradScalerOptions().min_scale(INFINITY));
            }).find("min_scale is finite"),
            std::string::npos);
}

TEST(Edges, AScalerRefusesAFileWithAScaleThatSkipsEveryStep) {
  torch::serialize::OutputArchive archive;
  archive.write("grad_scale", c10::IValue(0.0));
  archive.write("growth_tracker", c10::IValue(1.0));
  archive.write("hysteresis_tracker", c10::IValue(1.0));
  std::stringstream file;
  archive.save_to(file);
  torch::serialize::InputArchive input;
  input.load_from(file);
  altgrad::amp::GradScaler scaler;
  EXPECT_NE(wordsOf([&] { scaler.load(input); }).find("a loss scale is 0"),
            std::string::npos);
  EXPECT_EQ(scaler.get_scale(), 65536);
}

TEST(Edges, AChildOfForkStepsWhileAThreadOfItsParentDid) {
  if (onDriver())
    GTEST_SKIP() << "a child of fork has no driver";
  at::set_num_threads(1);
  Tensor param = leaf({1 << 18});
  AdamW optimizer(std::vector<Tensor>{param});
  optimizer.step();
  std::atomic<bool> stop = false;
  std::thread thread([&] {
    while (!stop)
      optimizer.step();
  });
  bool all = true;
  for (int round = 0; round < 4 && all; ++round) {
    pid_t child = fork();
    if (child == 0) {
      alarm(300); // ends one that waits for ever
      optimizer.step();
      _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    all = status == 0;
  }
  stop = true;
  thread.join();
  EXPECT_TRUE(all);
}

} // namespace
