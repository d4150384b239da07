// The same optimizer on the CPU and on $ALTGRAD_TEST_ON, "cuda" for example:
// every byte is the same. $ALTGRAD_TEST_DEVICE is a library with a torch
// device.
#include "Model.h"

#include <ATen/Context.h>
#include <altgrad/optim.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/serialize.h>

#include <cstdlib>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sstream>

using namespace altgrad::tests;
using namespace altgrad::optim;
using Group = torch::optim::OptimizerParamGroup;

namespace {

struct DeviceTest : testing::Test {
  void SetUp() override {
    const char *on = getenv("ALTGRAD_TEST_ON"),
               *library = getenv("ALTGRAD_TEST_DEVICE");
    if (!on)
      GTEST_SKIP() << "ALTGRAD_TEST_ON names no device";
    if (library && !dlopen(library, RTLD_NOW))
      FAIL() << dlerror();
    device = at::Device(on);
    if (device.is_cuda() && !at::hasCUDA())
      FAIL() << "torch finds no CUDA device";
    at::manual_seed(5);
  }

  std::vector<Tensor> leaves(at::ScalarType type = at::kFloat) {
    return {leaf({37, 19}, type), leaf({5}, type), leaf({}, type),
            leaf({0, 3}, type), leaf({4097}, type)};
  }

  // The same parameters there; their gradients come with `give`.
  std::vector<Tensor> moved(const std::vector<Tensor> &params) {
    std::vector<Tensor> there;
    for (const Tensor &param : params)
      there.push_back(param.detach().to(device).requires_grad_());
    return there;
  }

  void step(std::vector<Tensor> &host, std::vector<Tensor> &there,
            RuleOptimizer &a, RuleOptimizer &b, int steps = 4) {
    for (int i = 0; i < steps; ++i) {
      for (size_t j = 0; j < host.size(); ++j) {
        bool none = j == 1 && i % 3 == 2;
        Tensor grad = at::randn(host[j].sizes()).to(host[j].scalar_type());
        host[j].mutable_grad() = none ? Tensor() : grad;
        there[j].mutable_grad() = none ? Tensor() : grad.to(device);
      }
      a.step();
      b.step();
    }
  }

  void same(const std::vector<Tensor> &host, const std::vector<Tensor> &there,
            RuleOptimizer &a, RuleOptimizer &b) {
    for (size_t j = 0; j < host.size(); ++j) {
      EXPECT_TRUE(sameBits(host[j].detach(), there[j].detach().cpu())) << j;
      auto at = [&](RuleOptimizer &of, const Tensor &param, const char *name) {
        return static_cast<RuleParamState &>(
                   *of.state().at(param.unsafeGetTensorImpl()))
            .tensor(name);
      };
      for (const char *name : {"exp_avg", "exp_avg_sq", "step"}) {
        Tensor mine = at(a, host[j], name), theirs = at(b, there[j], name);
        EXPECT_EQ(theirs.device(), there[j].device()) << name;
        EXPECT_TRUE(sameBits(mine, theirs.cpu())) << name << " of " << j;
      }
    }
    if (a.grad_norm().defined()) {
      EXPECT_TRUE(sameBits(a.grad_norm(), b.grad_norm().cpu()));
    }
  }

  at::Device device = at::kCPU;
};

TEST_F(DeviceTest, AdamWHasTheSameBits) {
  for (at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf})
    for (bool amsgrad : {false, true})
      for (bool clip : {false, true}) {
        auto host = leaves(type), there = moved(host);
        RuleSpec spec("adamw");
        if (clip)
          spec.max_grad_norm(0.5);
        AdamW a(host, AdamWOptions(1e-2).amsgrad(amsgrad), spec);
        AdamW b(there, AdamWOptions(1e-2).amsgrad(amsgrad), spec);
        step(host, there, a, b);
        same(host, there, a, b);
      }
}

TEST_F(DeviceTest, GroupsAndTheirNumbers) {
  auto host = leaves(), there = moved(host);
  auto groups = [](const std::vector<Tensor> &params) {
    std::vector<Group> made;
    made.emplace_back(std::vector<Tensor>(params.begin(), params.begin() + 2),
                      std::make_unique<AdamWOptions>(0.1));
    made.emplace_back(std::vector<Tensor>(params.begin() + 2, params.end()),
                      std::make_unique<AdamWOptions>(0.01));
    return made;
  };
  AdamW a(groups(host)), b(groups(there));
  for (double lr : {0.5, 0.25}) {
    a.param_groups()[1].options().set_lr(lr);
    b.param_groups()[1].options().set_lr(lr);
    step(host, there, a, b);
  }
  same(host, there, a, b);
}

TEST_F(DeviceTest, FilesGoThereAndBack) {
  auto host = leaves(), there = moved(host);
  AdamW a(host, AdamWOptions(1e-2)), b(there, AdamWOptions(1e-2));
  for (int round = 0; round < 3; ++round) {
    step(host, there, a, b, 2);
    std::stringstream mine, theirs;
    torch::save(a, mine);
    torch::save(b, theirs);
    torch::load(b, mine, device);
    torch::load(a, theirs, at::kCPU);
  }
  step(host, there, a, b, 2);
  same(host, there, a, b);
}

TEST_F(DeviceTest, CpuAndDeviceUnderOneNorm) {
  auto host = leaves(), there = moved(host);
  there[0] = host[0].detach().clone().requires_grad_();
  RuleSpec spec = RuleSpec("adamw").max_grad_norm(0.5);
  AdamW a(host, AdamWOptions(1e-2), spec), b(there, AdamWOptions(1e-2), spec);
  for (int i = 0; i < 4; ++i) {
    for (size_t j = 0; j < host.size(); ++j) {
      host[j].mutable_grad() = at::randn(host[j].sizes());
      there[j].mutable_grad() = host[j].grad().to(there[j].device());
    }
    a.step();
    b.step();
    EXPECT_NEAR(a.last_grad_norm(), b.last_grad_norm(),
                1e-5 * a.last_grad_norm());
  }
  for (size_t j = 0; j < host.size(); ++j)
    EXPECT_TRUE(at::allclose(host[j].detach(), there[j].detach().cpu()));
}

} // namespace
