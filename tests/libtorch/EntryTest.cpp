// RuleOptimizer::enter: further steps of a rule over its states, in any storage.
#include "Model.h"

#include <altgrad/optim.h>

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace altgrad::tests;
using namespace altgrad::optim;

namespace {

const char *const sam = R"(rule sam(param w, grad g, state old m, lr = 0.25, option plain)
  m = m if plain else lerp(m, g, 0.5)
  w = old - lr * (g if plain else m)
entry climb(rho = 0.5)
  old = w
  w = w + rho * g
entry back
  w = old
)";

const Tensor &stateOf(RuleOptimizer &optimizer, const Tensor &param, const char *name) {
  return static_cast<RuleParamState &>(*optimizer.state().at(param.unsafeGetTensorImpl())).tensor(name);
}

TEST(Entry, GoesUpAndBack) {
  at::manual_seed(1);
  for (const char *storage : {"", "old=ocp.e4m3fn:128", "old=bf16,stochastic m=bf16", "master=f32"}) {
    Tensor a = leaf({64, 128}), b = leaf({7}), without = leaf({3});
    without.mutable_grad() = Tensor();
    RuleOptimizer optimizer({a, b, without}, RuleSpec().text(sam).storage(storage).seed(strstr(storage, "stochastic")
                                                                                            ? std::optional<int64_t>(3)
                                                                                            : std::nullopt));
    const Tensor before = a.detach().clone(), grad = a.grad(), kept = without.detach().clone();
    optimizer.enter("back"); // nothing has states yet
    EXPECT_TRUE(at::equal(a, before));
    optimizer.enter("climb", /*gradients=*/true, {{"rho", 2.0}});
    EXPECT_TRUE(at::allclose(a, before + 2 * grad));
    optimizer.enter("back");
    EXPECT_TRUE(at::allclose(a, before, 0.0625, 1e-2));
    EXPECT_TRUE(a.grad().is_same(grad) && !without.grad().defined() && at::equal(without, kept));
    optimizer.enter("climb", true);
    EXPECT_TRUE(at::allclose(a, before + 0.5 * grad, 0.0625, 1e-1));
    optimizer.step();
    EXPECT_EQ(stateOf(optimizer, a, "m").sizes(), a.sizes());
    EXPECT_EQ(stateOf(optimizer, a, "old_scale").defined(), strstr(storage, ":128") != nullptr);
  }
}

TEST(Entry, IsRefusedWhereThereIsNone) {
  Tensor a = leaf({5});
  RuleOptimizer optimizer({a}, RuleSpec().text(sam), RuleOptions().option("plain"));
  EXPECT_THAT([&] { optimizer.enter("clim"); }, testing::ThrowsMessage<c10::Error>(testing::HasSubstr(
                                                    "rule 'sam' has no entry 'clim'; did you mean 'climb'?")));
  EXPECT_THAT(
      [&] {
        optimizer.enter("climb", true, {{"lr", 1.0}});
      },
      testing::ThrowsMessage<c10::Error>(testing::HasSubstr("the entry 'climb' has no hyper-parameter 'lr'")));
  const Tensor before = a.detach().clone(), grad = a.grad();
  optimizer.enter("climb", true);
  optimizer.step(); // as a step was before that failed
  EXPECT_TRUE(at::allclose(a, before - 0.25 * grad));
}

TEST(Entry, OfAStockClassTurnsItsWeights) {
  Tensor a = leaf({5});
  RuleOptimizer optimizer({a}, RuleSpec("sgdschedulefree"), RuleOptions(0.5).hyper("momentum", 0.8));
  optimizer.step();
  optimizer.step();
  const Tensor y = a.detach().clone(), z = stateOf(optimizer, a, "z").clone();
  optimizer.enter("eval");
  EXPECT_TRUE(at::allclose(a, y + (1 - 1 / 0.8) * (z - y)));
  optimizer.enter("train");
  EXPECT_TRUE(at::allclose(a, y));
}

} // namespace
