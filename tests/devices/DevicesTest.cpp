// LibTorch's optimizers with parameters on several devices: the bits of one on
// the CPU, one norm.
#include "altgrad/amp.h"
#include "altgrad/optim.h"

#include <gtest/gtest.h>
#include <torch/serialize.h>
#include <torch/torch.h>

#include <atomic>

using namespace altgrad::optim;
using at::Tensor;

extern std::atomic<bool> productsAreWrong; // of TorchDevice.cpp

namespace {

const at::Device first(at::kPrivateUse1, 0), second(at::kPrivateUse1, 1),
    host(at::kCPU);

// The same parameters here and there.
struct Twins {
  Twins(const std::vector<at::Device> &places, at::ScalarType type) {
    torch::manual_seed(1);
    for (at::Device place : places) {
      Tensor value = torch::randn({33, 5}).to(type);
      here.push_back(value.clone().set_requires_grad(true));
      there.push_back(value.to(place).set_requires_grad(true));
    }
  }
  void giveGradients() {
    for (size_t i = 0; i < here.size(); ++i) {
      here[i].mutable_grad() = torch::randn_like(here[i]);
      there[i].mutable_grad() = here[i].grad().to(there[i].device());
    }
  }
  std::vector<Tensor> here, there;
};

TEST(Devices, BitsAreTheCpus) {
  for (at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Twins twins({host, first, second, first}, type);
    AdamW here(twins.here, AdamWOptions(1e-2)),
        there(twins.there, AdamWOptions(1e-2));
    for (int step = 0; step < 4; ++step) {
      twins.giveGradients();
      if (step == 2)
        twins.here[1].mutable_grad() = twins.there[1].mutable_grad() = Tensor();
      here.step();
      there.step();
    }
    for (size_t i = 0; i < twins.here.size(); ++i)
      EXPECT_TRUE(torch::equal(twins.there[i].cpu(), twins.here[i])) << i;
  }
}

TEST(Devices, OneNorm) {
  Twins twins({second, host, first}, at::kFloat);
  RuleSpec spec = RuleSpec("adamw").max_grad_norm(0.5);
  AdamW here(twins.here, AdamWOptions(1e-2), spec),
      there(twins.there, AdamWOptions(1e-2), spec);
  EXPECT_FALSE(there.grad_norm().defined());
  for (int step = 0; step < 3; ++step) {
    twins.giveGradients();
    here.step();
    there.step();
    EXPECT_EQ(there.grad_norm().device(), first) << "GPUs come first";
    EXPECT_NEAR(there.last_grad_norm(), here.last_grad_norm(), 1e-5);
    for (size_t i = 0; i < twins.here.size(); ++i)
      EXPECT_TRUE(torch::allclose(twins.there[i].cpu(), twins.here[i], 1e-6));
  }
}

// Both devices note the same norms, wherever their first one's history was.
TEST(Devices, APercentileOfPastNorms) {
  Twins twins({second, host, first}, at::kFloat);
  RuleSpec spec = RuleSpec("sgd").max_grad_norm(30).clip("percentile");
  RuleOptimizer here(twins.here, spec, RuleOptions(1e-2)),
      there(twins.there, spec, RuleOptions(1e-2));
  for (int step = 0; step < 8; ++step) {
    twins.giveGradients();
    for (auto &params : {twins.here, twins.there})
      for (const Tensor &param : params)
        param.mutable_grad().mul_(double(step % 3 + 1));
    if (step == 5)
      twins.here[2].mutable_grad() = twins.there[2].mutable_grad() = Tensor();
    here.step();
    there.step();
    for (size_t i = 0; i < twins.here.size(); ++i)
      EXPECT_TRUE(torch::allclose(twins.there[i].cpu(), twins.here[i], 1e-5));
  }
}

TEST(Devices, AFileFromTheCpu) {
  Twins twins({first, second}, at::kFloat);
  AdamW here(twins.here, AdamWOptions(1e-2)),
      there(twins.there, AdamWOptions(1e-2));
  twins.giveGradients();
  here.step();
  there.step();
  for (auto *optimizer : {&there, &there}) { // saved and loaded, twice
    std::stringstream file;
    torch::save(*optimizer, file);
    torch::load(*optimizer, file);
    twins.giveGradients();
    here.step();
    optimizer->step();
  }
  for (size_t i = 0; i < twins.here.size(); ++i)
    EXPECT_TRUE(torch::equal(twins.there[i].cpu(), twins.here[i])) << i;
}

TEST(Devices, WhatIsOnNoDeviceOfOursIsRefused) {
  Tensor meta = torch::empty({3}, at::kMeta).set_requires_grad(true);
  try {
    AdamW optimizer({meta});
    FAIL();
  } catch (const c10::Error &error) {
    EXPECT_NE(strstr(error.what_without_backtrace(), "is on meta; this"),
              nullptr)
        << error.what_without_backtrace();
  }
}

TEST(Devices, SkipsAreCountedWhereDevicesTakeTurns) {
  Twins twins({host, first, second}, at::kFloat);
  AdamW optimizer(twins.there, AdamWOptions(1e-2));
  altgrad::amp::GradScaler scaler;
  scaler.scale(at::ones({}, first));
  for (size_t step = 0; step < 8; ++step) {
    for (size_t i = 0; i < 3; ++i)
      twins.there[i].mutable_grad() =
          step % 4 == i || step % 4 == 3
              ? at::full_like(twins.there[i].detach(), NAN)
              : Tensor();
    scaler.step(optimizer);
    scaler.update();
    EXPECT_EQ(optimizer.skipped_steps().item<int64_t>(), int64_t(step) + 1);
  }
}

TEST(Devices, AWrongProductOnOneSkipsTheStepOfAll) {
  for (double bound : {0.0, 0.5})
    for (auto [ofMatrix, ofVector] : {std::make_pair(first, second), {second, first}}) {
      torch::manual_seed(1);
      Tensor matrix = torch::randn({24, 40}).to(ofMatrix).set_requires_grad(true);
      Tensor vector = torch::randn({7}).to(ofVector).set_requires_grad(true);
      std::vector<torch::optim::OptimizerParamGroup> groups;
      groups.emplace_back(std::vector<Tensor>{matrix}, std::make_unique<RuleOptions>(0.02));
      auto ofAdamW = std::make_unique<RuleOptions>(RuleOptions(0.02).option("rule=adamw"));
      groups.emplace_back(std::vector<Tensor>{vector}, std::move(ofAdamW));
      Muon optimizer(groups, RuleOptions(0.02), bound ? RuleSpec().max_grad_norm(bound) : RuleSpec());
      for (int step = 0; step < 3; ++step) {
        Tensor before = matrix.detach().clone(), beside = vector.detach().clone();
        matrix.mutable_grad() = torch::randn({24, 40}).to(ofMatrix);
        vector.mutable_grad() = torch::randn({7}).to(ofVector);
        productsAreWrong = step == 1;
        optimizer.step();
        productsAreWrong = false;
        EXPECT_EQ(torch::equal(before.cpu(), matrix.cpu()), step == 1);
        EXPECT_EQ(torch::equal(beside.cpu(), vector.cpu()), step == 1);
      }
    }
}

} // namespace
