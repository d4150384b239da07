// Between two steps anything may be put where a tensor was: torch's result or
// one error, and never a byte beyond a tensor.
#include "Model.h"

#include <altgrad/optim.h>

#include <gtest/gtest.h>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

// Ours and torch's AdamW over equal parameters, after two steps. Each parameter
// is a view into room to grow.
struct Twins {
  explicit Twins(at::IntArrayRef sizes, int64_t count = 3) {
    at::manual_seed(11);
    Tensor room = at::randn({count, 64});
    for (std::vector<Tensor> *params : {&a, &b}) {
      rooms.push_back(room.clone());
      for (int64_t i = 0; i < count; ++i)
        params->push_back(rooms.back()[i]
                              .slice(0, 0, c10::multiply_integers(sizes))
                              .view(sizes)
                              .detach()
                              .requires_grad_());
    }
    ours = std::make_unique<AdamW>(a, AdamWOptions(0.1));
    torchs = std::make_unique<torch::optim::AdamW>(b, AdamWOptions(0.1));
    step();
    step();
  }
  void giveGradients() {
    for (size_t i = 0; i < a.size(); ++i) {
      a[i].mutable_grad() = at::randn(a[i].sizes());
      b[i].mutable_grad() = a[i].grad().clone();
    }
  }
  void step() {
    giveGradients();
    ours->step();
    torchs->step();
  }
  void expectEqual() {
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_TRUE(at::allclose(a[i], b[i], 1e-5, 1e-6)) << "parameter " << i;
  }
  RuleParamState &stateOf(size_t i) {
    torch::optim::Optimizer &plain = *ours;
    return static_cast<RuleParamState &>(
        *plain.state().at(a[i].unsafeGetTensorImpl()));
  }

  std::vector<Tensor> rooms, a, b;
  std::unique_ptr<AdamW> ours;
  std::unique_ptr<torch::optim::AdamW> torchs;
};

// A gradient that is absent leaves its parameter and state alone; it comes back.
TEST(Changed, GradientsThatAreAbsentInTurns) {
  Twins twins({4, 5});
  for (size_t step = 0; step < 9; ++step) {
    twins.giveGradients();
    for (size_t i = 0; i < twins.a.size(); ++i)
      if ((step + i) % 3 == 0 || step == 4)
        twins.a[i].mutable_grad() = twins.b[i].mutable_grad() = Tensor();
    twins.ours->step();
    twins.torchs->step();
    twins.expectEqual();
  }
  EXPECT_EQ(twins.stateOf(0).tensor("step").item<double>(), 2 + 5);
}

// The step fails with these words and changes nothing in the parameters' rooms.
void expectRefusal(Twins &twins, const std::string &words) {
  Tensor before = twins.rooms[0].clone();
  try {
    twins.ours->step();
    ADD_FAILURE() << "no error with: " << words;
  } catch (const c10::Error &error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find(words),
              std::string::npos)
        << error.what_without_backtrace();
  }
  EXPECT_TRUE(sameBits(before, twins.rooms[0]));
}

TEST(Changed, ParameterOfAnotherShapeAtItsAddress) {
  for (size_t place : {0, 1, 2})
    for (const Tensor &like :
         {at::empty({2, 4}), at::empty({8, 8}), at::empty({16})}) {
      Twins twins({4, 4});
      Tensor &param = twins.a[place];
      void *address = param.data_ptr();
      param.set_data(param.detach().as_strided(like.sizes(), like.strides()));
      ASSERT_EQ(param.data_ptr(), address);
      twins.giveGradients();
      expectRefusal(twins, "state 'exp_avg' of shape (4, 4) on cpu does not belong to a parameter of shape (");
    }
}

TEST(Changed, ParameterTransposedAtItsAddress) {
  for (size_t place : {0, 1, 2}) {
    Twins twins({4, 4});
    for (std::vector<Tensor> *params : {&twins.a, &twins.b})
      (*params)[place].set_data((*params)[place].detach().t());
    twins.step();
    twins.step();
    twins.expectEqual();
  }
}

TEST(Changed, ParameterThatIsNotDenseAnyMore) {
  Twins twins({4, 4});
  for (std::vector<Tensor> *params : {&twins.a, &twins.b})
    (*params)[1].set_data((*params)[1].detach().as_strided({4, 4}, {8, 2}));
  Tensor gaps = twins.rooms[0][1].slice(0, 1, 64, 2), before = gaps.clone();
  twins.step();
  twins.step();
  twins.expectEqual();
  EXPECT_TRUE(at::equal(gaps, before));
}

TEST(Changed, ParameterWhoseElementsMeet) {
  Twins twins({4, 4});
  twins.a[1].set_data(twins.a[1].detach().as_strided({4, 4}, {1, 1}));
  twins.giveGradients();
  expectRefusal(twins, "parameter 1 of group 0 of shape (4, 4) and strides (1, 1) has several elements at one address");
}

TEST(Changed, ParameterOfAnotherTypeAtItsAddress) {
  Twins twins({4, 4});
  twins.a[2].set_data(
      twins.a[2].detach().view(at::kBFloat16).as_strided({4, 4}, {4, 1}));
  twins.giveGradients();
  twins.a[2].unsafeGetTensorImpl()->mutable_grad() =
      at::ones({4, 4}, at::kBFloat16);
  expectRefusal(twins, "parameter 2 of group 0: state 'exp_avg' is torch.float32, and the step stores "
                       "torch.bfloat16");
}

TEST(Changed, ParameterThatSharesItsMemoryUntilItIsWritten) {
  Twins twins({4, 4});
  Tensor own = at::randn({4, 4});
  twins.a[0].set_data(own);
  twins.b[0].set_data(own.clone());
  twins.step();
  Tensor later = at::_lazy_clone(own), value = own.clone();
  twins.step();
  twins.expectEqual();
  EXPECT_TRUE(sameBits(later, value));
}

TEST(Changed, StateMovesInAnyRow) {
  for (const char *key : {"exp_avg", "exp_avg_sq", "step"})
    for (size_t place : {0, 1, 2}) {
      Twins twins({4, 4});
      Tensor state = twins.stateOf(place).tensor(key), old = state.clone();
      Tensor memory = state.detach();
      state.set_data(old.clone());
      memory.zero_();
      twins.step();
      twins.expectEqual();
      EXPECT_TRUE(sameBits(memory, at::zeros_like(memory))) << key;
    }
}

TEST(Changed, StateThatDoesNotFitAnyMore) {
  for (const Tensor &like : {at::empty({2, 2}), at::empty({16})}) {
    Twins twins({4, 4});
    Tensor state = twins.stateOf(1).tensor("exp_avg_sq");
    state.set_data(state.detach().as_strided(like.sizes(), like.strides()));
    twins.giveGradients();
    expectRefusal(twins, "parameter 1 of group 0: state 'exp_avg_sq' of shape (");
  }
  Twins twins({4, 4});
  twins.stateOf(1).tensor("exp_avg_sq",
                          at::zeros({4, 4}, at::device(at::kMeta)));
  twins.giveGradients();
  expectRefusal(twins, "is no plain tensor of the CPU or a GPU: Strided on meta");
}

TEST(Changed, StateIsLaidOutOtherwise) {
  Twins twins({4, 4});
  Tensor state = twins.stateOf(1).tensor("exp_avg");
  state.set_data(state.t().contiguous().t());
  twins.stateOf(2).tensor("exp_avg",
                          -at::_neg_view(twins.stateOf(2).tensor("exp_avg")));
  twins.stateOf(0).tensor(
      "exp_avg_sq", at::_neg_view(-twins.stateOf(0).tensor("exp_avg_sq")));
  twins.step();
  twins.expectEqual();
}

// None of these goes through a method of altgrad's.
TEST(Changed, StateIsReplacedBehindOurBack) {
  Twins twins({4, 4});
  torch::optim::Optimizer &plain = *twins.ours;
  auto key = [&](size_t i) -> void * {
    return twins.a[i].unsafeGetTensorImpl();
  };
  std::swap(plain.state().at(key(0)), plain.state().at(key(1)));
  std::swap(twins.torchs->state().at(twins.b[0].unsafeGetTensorImpl()),
            twins.torchs->state().at(twins.b[1].unsafeGetTensorImpl()));
  twins.step();
  twins.expectEqual();
  plain.state().erase(key(2));
  plain.state()[key(2)] = std::make_unique<RuleParamState>();
  twins.giveGradients();
  expectRefusal(twins, "the state of parameter 2 of group 0 has no 'exp_avg'");
  plain.state().erase(key(2));
  twins.torchs->state().erase(twins.b[2].unsafeGetTensorImpl());
  twins.step();
  twins.expectEqual();
  EXPECT_EQ(twins.stateOf(2).tensor("step").item<int64_t>(), 1);
}

TEST(Changed, GradientOfAnotherTypeOfEqualWidth) {
  std::vector<Tensor> params;
  for (int i = 0; i < 3; ++i)
    params.push_back(leaf({8}, at::kBFloat16));
  AdamW optimizer(params);
  optimizer.step();
  for (Tensor &param : params) {
    std::vector<Tensor> before;
    for (const Tensor &other : params)
      before.push_back(other.detach().clone());
    Tensor grad = param.grad();
    param.unsafeGetTensorImpl()->mutable_grad() = at::ones({8}, at::kHalf);
    EXPECT_THROW(optimizer.step(), c10::Error);
    for (size_t i = 0; i < params.size(); ++i)
      EXPECT_TRUE(sameBits(before[i], params[i].detach()));
    param.unsafeGetTensorImpl()->mutable_grad() = grad;
  }
  optimizer.step();
}

TEST(Changed, GradientsOfManyKinds) {
  Twins twins({4, 4});
  auto with = [&](const Tensor &grad) {
    twins.a[1].unsafeGetTensorImpl()->mutable_grad() = grad;
  };
  for (auto make : {+[](const Tensor &g) { return at::_neg_view(-g); },
                    +[](const Tensor &g) { return g.t().contiguous().t(); },
                    +[](const Tensor &g) {
                      return at::cat({g, g}).slice(0, 0, 8, 2);
                    }}) {
    twins.giveGradients();
    Tensor grad = make(twins.a[1].grad());
    with(grad);
    twins.b[1].mutable_grad() = grad.contiguous().resolve_neg();
    twins.ours->step();
    twins.torchs->step();
    twins.expectEqual();
  }
  twins.giveGradients();
  with(at::_efficientzerotensor({4, 4}));
  twins.b[1].mutable_grad() = at::zeros({4, 4});
  twins.ours->step();
  twins.torchs->step();
  twins.expectEqual();
  twins.giveGradients();
  with(at::ones({4, 4}, at::device(at::kMeta)));
  expectRefusal(twins, "the gradient of parameter 1 of group 0 is on meta");
  with(twins.a[0].detach());
  expectRefusal(twins, "shares memory with parameter 0 of group 0");
}

TEST(Changed, UndefinedAndMetaParameters) {
  Twins twins({4, 4});
  Tensor &param = twins.ours->param_groups()[0].params()[1];
  Tensor old = std::exchange(param, Tensor());
  twins.giveGradients();
  expectRefusal(twins, "parameter 1 of group 0 is undefined");
  param = old;
  twins.ours->step();
  twins.torchs->step();
  twins.expectEqual();
  EXPECT_THROW(AdamW({at::ones({3}, at::device(at::kMeta)).requires_grad_()}),
               c10::Error);
}

TEST(Changed, InferenceTensorsAreWrittenInInferenceModeOnly) {
  std::unique_ptr<AdamW> optimizer;
  Tensor param;
  {
    c10::InferenceMode enabled;
    param = at::ones({4});
    param.mutable_grad() = at::ones({4});
    optimizer = std::make_unique<AdamW>(std::vector<Tensor>{param});
    optimizer->step();
  }
  Tensor before = param.clone();
  EXPECT_THROW(optimizer->step(), c10::Error);
  EXPECT_TRUE(sameBits(before, param));
  c10::InferenceMode enabled;
  optimizer->step();
  EXPECT_FALSE(sameBits(before, param));
}

} // namespace
