// RuleOptimizer: rules by name and from text, and what it refuses.
#include "Model.h"

#include <altgrad/optim.h>

#include <c10/util/tempfile.h>
#include <climits>
#include <cstdio>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

using namespace altgrad::tests;
using namespace altgrad::optim;
using torch::optim::OptimizerParamGroup;

namespace {

const char *const heavyBall = R"(
altgrad.rule @heavy_ball(
    param %w: f32, grad %g: f32, state %speed: f32,
    hyper %lr: f64 = 0.25, hyper %drag: f64 = 0.5) {
  %one = constant 1.0 : f64
  %rest = subf %one, %drag : f64
  %hold = truncf %rest : f64 to f32
  %rate = truncf %lr : f64 to f32
  %kept = mulf %hold, %speed : f32
  %push = mulf %rate, %g : f32
  %speed1 = subf %kept, %push : f32
  %w1 = addf %w, %speed1 : f32
  altgrad.yield param(%w1) state(%speed1)
}
)";

// The same in short form.
const char *const shortBall = R"(rule heavy_ball(param w, grad g, state speed, lr = 0.25, drag = 0.5)
  speed = (1 - drag) * speed - lr * g
  w = w + speed
)";

const Tensor &stateOf(RuleOptimizer &optimizer, const Tensor &param,
                      const char *name) {
  auto &state = optimizer.state().at(param.unsafeGetTensorImpl());
  return static_cast<RuleParamState &>(*state).tensor(name);
}

TEST(Rule, ComesFromAUsersText) {
  at::manual_seed(1);
  Tensor a = leaf({5000}), b = leaf({7});
  Tensor wantA = a.detach() - 0.25f * a.grad() - 0.375f * a.grad();
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{a});
  groups.emplace_back(std::vector<Tensor>{b},
                      std::make_unique<RuleOptions>(0.5));
  Tensor wantB = b.detach() - 0.5f * b.grad() - 0.75f * b.grad();
  RuleOptimizer optimizer(groups, RuleSpec().text(heavyBall));
  EXPECT_EQ(optimizer.param_groups()[0].options().get_lr(), 0.25);
  optimizer.step();
  optimizer.step();
  EXPECT_TRUE(at::allclose(a, wantA, 1e-6, 1e-6));
  EXPECT_TRUE(at::allclose(b, wantB, 1e-6, 1e-6));
  EXPECT_EQ(stateOf(optimizer, a, "speed").sizes(), a.sizes());
}

// A number of each tensor, one of the step, and a tensor that is only read.
const char *const numbers = R"(
altgrad.rule @numbers(param %w: f32, grad %g: f32, input %h: f32, state %d: f64 per step = 0.25,
                      state %s: f32 per tensor = 2.0, hyper %lr: f64 = 0.5) {
  %sum = altgrad.reduce add %g over step : f32
  %wide = extf %sum : f32 to f64
  %d1 = addf %d, %wide : f64
  %own = altgrad.reduce max %g over tensor : f32
  %s1 = addf %s, %own : f32
  %rate = mulf %lr, %d1 : f64
  %r = truncf %rate : f64 to f32
  %a = mulf %r, %s1 : f32
  %dw = mulf %a, %h : f32
  %w1 = subf %w, %dw : f32
  altgrad.yield param(%w1) state(%d1: f64, %s1)
}
)";

void putInput(RuleOptimizer &optimizer, const Tensor &param, const Tensor &value) {
  auto &state = optimizer.state()[param.unsafeGetTensorImpl()];
  if (!state)
    state = std::make_unique<RuleParamState>();
  static_cast<RuleParamState &>(*state).tensor("h", value);
}

TEST(Rule, KeepsNumbersOfTensorsAndOfTheStep) {
  Tensor a = at::zeros({50}).requires_grad_(), b = at::zeros({3, 3}).requires_grad_();
  a.mutable_grad() = at::full({50}, 0.5f), b.mutable_grad() = at::full({3, 3}, -1.0f);
  RuleOptimizer optimizer({a, b}, RuleSpec().text(numbers)), other({a, b}, RuleSpec().text(numbers));
  for (const Tensor &param : {a, b})
    putInput(optimizer, param, at::ones_like(param));
  optimizer.step(); // the sum over the step is 16
  EXPECT_TRUE(at::equal(a.detach(), at::full({50}, -0.5f * 16.25f * 2.5f)));
  EXPECT_TRUE(at::equal(b.detach(), at::full({3, 3}, -0.5f * 16.25f * 1.0f)));
  std::stringstream file;
  torch::save(optimizer, file), torch::load(other, file);
  optimizer.step();
  Tensor once = a.detach().clone();
  at::NoGradGuard guard;
  a.fill_(-0.5f * 16.25f * 2.5f);
  other.step();
  EXPECT_TRUE(at::equal(a.detach(), once));
}

// Adafactor's averages, which a parameter of several dimensions has as one matrix.
TEST(Rule, KeepsNumbersOfRowsAndOfColumns) {
  const char *const factored = R"(rule factored(param w, grad g, row r, column c, lr = 0.5)
  r = lerp(f32(r), mean(g * g over row), 0.25)
  c = lerp(c, mean(g * g over column), 0.25)
  w = w - lr * g / sqrt(f32(r / mean(r over tensor)) * c)
)";
  at::manual_seed(1);
  Tensor a = leaf({2, 20, 9}), g = a.grad().to(at::kDouble).reshape({40, 9});
  RuleOptimizer optimizer({a}, RuleSpec().text(factored));
  Tensor want = a.detach().to(at::kDouble), r = at::zeros({40, 1}, g.options()), c = at::zeros({1, 9}, g.options());
  for (int step = 0; step < 3; ++step) {
    r.lerp_((g * g).mean(1, /*keepdim=*/true), 0.25);
    c.lerp_((g * g).mean(0, /*keepdim=*/true), 0.25);
    want = want - (0.5 * g / (r / r.mean() * c).sqrt()).reshape(a.sizes());
    optimizer.step();
  }
  EXPECT_TRUE(at::allclose(a.to(at::kDouble), want, 1e-5, 1e-5));
  EXPECT_EQ(stateOf(optimizer, a, "r").sizes(), at::IntArrayRef({2, 20, 1}));
  EXPECT_EQ(stateOf(optimizer, a, "c").sizes(), at::IntArrayRef({1, 1, 9}));
}

TEST(Rule, SaysWhichInputIsMissing) {
  Tensor a = leaf({4});
  RuleOptimizer optimizer({a}, RuleSpec().text(numbers));
  try {
    optimizer.step();
    ADD_FAILURE() << "no error";
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what_without_backtrace(), testing::HasSubstr("the rule reads 'h'"));
  }
}

TEST(Rule, RunsEveryTemplate) {
  for (const char *rule : {"sgd", "adam", "adamw", "adagrad", "rmsprop", "lion",
                           "lamb", "adopt", "ademamix"}) {
    Samples samples;
    Mlp model;
    RuleOptimizer optimizer(model->parameters(), rule, RuleOptions(1e-2));
    auto losses = train(model, optimizer, samples, 60);
    EXPECT_LT(losses.back(), losses.front()) << rule;
  }
}

TEST(Rule, TakesLayoutsAsTheyCome) {
  at::manual_seed(2);
  auto spec = RuleSpec().text(heavyBall);
  // A transposed weight, a gradient in another order, an expanded gradient.
  Tensor weight = at::randn({6, 10}).t().requires_grad_();
  weight.mutable_grad() = at::randn({10, 6});
  Tensor bias = at::randn({8}).requires_grad_();
  bias.mutable_grad() = at::ones({1}).expand({8});
  Tensor none = at::empty({0, 4}).requires_grad_();
  none.mutable_grad() = at::empty({0, 4});
  Tensor wantWeight = weight.detach() - 0.25f * weight.grad();
  Tensor wantBias = bias.detach() - 0.25f;
  RuleOptimizer optimizer({weight, bias, none}, spec);
  optimizer.step();
  EXPECT_TRUE(at::allclose(weight, wantWeight, 1e-6, 1e-6));
  EXPECT_TRUE(at::allclose(bias, wantBias, 1e-6, 1e-6));
  EXPECT_EQ(stateOf(optimizer, weight, "speed").strides(), weight.strides());
  // The storage moves under the same tensor.
  bias.set_data(at::zeros({8}));
  optimizer.step();
  EXPECT_TRUE(at::allclose(bias, at::full({8}, -0.375f), 1e-6, 1e-6));
}

// Runs a step that must fail with these words and change nothing.
void expectRefusal(RuleOptimizer &optimizer, const std::string &words) {
  std::vector<Tensor> before;
  for (auto &group : optimizer.param_groups())
    for (const Tensor &param : group.params())
      before.push_back(param.detach().clone());
  try {
    optimizer.step();
    ADD_FAILURE() << "no error with: " << words;
  } catch (const c10::Error &error) {
    EXPECT_NE(std::string(error.what_without_backtrace()).find(words),
              std::string::npos)
        << error.what_without_backtrace();
  }
  auto old = before.begin();
  for (auto &group : optimizer.param_groups())
    for (const Tensor &param : group.params())
      EXPECT_TRUE(sameBits(*old++, param.detach().contiguous()));
  EXPECT_EQ(optimizer.state().size(), 0);
}

TEST(Refusal, OfGradients) {
  Tensor good = leaf({4}), param = leaf({4});
  RuleOptimizer optimizer({good, param}, RuleSpec().text(heavyBall));
  auto with = [&](Tensor grad, const std::string &words) {
    param.unsafeGetTensorImpl()->mutable_grad() = std::move(grad);
    expectRefusal(optimizer, words);
  };
  with(at::ones({4}, at::kDouble),
       "the gradient of parameter 1 of group 0 is Double, expected Float");
  with(at::ones({2, 2}), "has sizes [2, 2], expected [4]");
  with(at::ones({4}).to_sparse(), "does not support sparse gradients");
  with(good.detach(), "the gradient of parameter 1 of group 0 shares memory with "
                      "parameter 0 of group 0; clone() it");
}

TEST(Rule, ColumnsOfOneMatrixAreApart) {
  Tensor memory = at::ones({4, 10});
  auto column = [&](int64_t i) {
    Tensor leaf = memory.select(1, i).requires_grad_();
    leaf.mutable_grad() = at::ones({4});
    return leaf;
  };
  RuleOptimizer optimizer({column(0), column(2), column(3)}, RuleSpec().text(heavyBall));
  // A gradient between the columns.
  optimizer.param_groups()[0].params()[1].mutable_grad() = memory[1].slice(0, 5, 9);
  for (int i = 0; i < 2; ++i)
    optimizer.step();
  for (int64_t i : {1, 4, 5, 8, 9})
    EXPECT_TRUE(memory.select(1, i).eq(1).all().item<bool>());
  EXPECT_TRUE(memory.select(1, 0).ne(1).all().item<bool>());
  for (int64_t i : {2, 3})
    EXPECT_TRUE(at::equal(memory.select(1, i), memory.select(1, 0)));
  optimizer.param_groups()[0].params()[1].mutable_grad() = memory[1].slice(0, 3, 7);
  try {
    optimizer.step();
    FAIL() << "a gradient that the step overwrites";
  } catch (const c10::Error &error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("the gradient of parameter 1 of group 0 shares memory with parameter 2"));
  }
}

TEST(Refusal, OfParameters) {
  auto spec = RuleSpec().text(heavyBall);
  Tensor memory = at::zeros({12});
  auto leafOf = [](Tensor view) {
    view.requires_grad_().mutable_grad() = at::ones(view.sizes());
    return view;
  };
  RuleOptimizer apart(
      {leafOf(memory.slice(0, 0, 8)), leafOf(memory.slice(0, 6, 12))}, spec);
  expectRefusal(apart, "parameter 1 of group 0 shares memory with parameter 0 of group 0");
  Tensor same = leaf({3});
  RuleOptimizer twice({same, same}, spec);
  expectRefusal(twice, "shares memory");
  EXPECT_THROW(RuleOptimizer({leafOf(at::zeros({1}).expand({2}))}, spec),
               c10::Error);
  EXPECT_THROW(
      RuleOptimizer({at::zeros({3}, at::kDouble).requires_grad_()}, spec),
      c10::Error);
}

// SGD by a rule: what it takes from w is lr times the clipped gradient.
TEST(Rule, ClipsParametersOfTwoTypesByOneNorm) {
  at::manual_seed(9);
  for (double most : {0.5, 1e6, 0.0}) {
    Tensor a = leaf({4097}), b = leaf({33}, at::kBFloat16);
    Tensor a0 = a.detach().clone(), ga = a.grad().clone(),
           gb = b.grad().clone();
    RuleOptimizer optimizer({a, b}, RuleSpec("sgd").max_grad_norm(most),
                            RuleOptions().hyper("lr", 0.5));
    double norm =
        at::cat({ga, gb.to(at::kFloat).flatten()}).norm().item<float>();
    double ratio = std::min(most / (norm + 1e-6), 1.0);
    optimizer.step();
    EXPECT_NEAR(optimizer.last_grad_norm() / norm, 1, 1e-6);
    EXPECT_TRUE(at::allclose(a.detach(), a0 - 0.5 * ratio * ga, 1e-5, 1e-6));
  }
}

TEST(Rule, AnInfiniteGradientOfOneTypeStopsTheOther) {
  Tensor a = leaf({40}), b = leaf({33}, at::kBFloat16);
  Tensor a0 = a.detach().clone();
  b.mutable_grad()[3] = INFINITY;
  RuleOptimizer optimizer({a, b}, RuleSpec("sgd").max_grad_norm(1.0),
                          RuleOptions().hyper("lr", 0.5));
  optimizer.step();
  EXPECT_TRUE(std::isinf(optimizer.last_grad_norm()));
  EXPECT_TRUE(at::equal(a.detach(), a0)) << "torch's coefficient is 0, too";
}

TEST(Rule, IsToldTheExtentsOfMatrices) {
  Tensor batch = leaf({2, 5, 3, 4}), row = leaf({7}), turned = leaf({4, 3}).t();
  turned = turned.detach().requires_grad_();
  turned.mutable_grad() = at::ones_like(turned);
  RuleOptimizer optimizer({batch, row, turned}, RuleSpec().text(R"(
altgrad.rule @extents(param %w: f32, grad %g: f32) {
  %rows = altgrad.dim rows : i64
  %columns = altgrad.dim columns : i64
  %ten = constant 10 : i64
  %tens = muli %rows, %ten : i64
  %both = addi %tens, %columns : i64
  %number = sitofp %both : i64 to f64
  %w1 = truncf %number : f64 to f32
  altgrad.yield param(%w1) state()
})"));
  optimizer.step();
  EXPECT_TRUE(at::equal(batch.detach(), at::full({2, 5, 3, 4}, 34.0)));
  EXPECT_TRUE(at::equal(row.detach(), at::full({7}, 17.0)));
  EXPECT_TRUE(at::equal(turned.detach(), at::full({3, 4}, 34.0)));
}

TEST(Rule, ComesFromAFile) {
  c10::TempDir folder = c10::make_tempdir("altgrad-rule-");
  std::string path = folder.name + "/heavy_ball.mlir";
  std::ofstream(path) << heavyBall;
  Tensor a = leaf({7}), b = twin(a), c = twin(a);
  RuleOptimizer byPath({a}, path), byText({b}, RuleSpec().text(heavyBall)), byShortText({c}, RuleSpec().text(shortBall));
  std::remove(path.c_str());
  for (RuleOptimizer *optimizer : {&byPath, &byText, &byShortText})
    optimizer->step();
  EXPECT_TRUE(sameBits(a.detach(), b.detach()));
  EXPECT_TRUE(sameBits(a.detach(), c.detach()));
  EXPECT_THROW(RuleOptimizer({a}, path), c10::Error);
}

// A stock name means the rule of the installation, whatever lies in the folder.
TEST(Rule, OfAStockNameIsNotTheWorkingDirectorys) {
  c10::TempDir temporary = c10::make_tempdir("altgrad-shadow-");
  const std::string &folder = temporary.name;
  std::vector<std::string> files{"/sgd", "/sgd.mlir", "/templates/sgd.mlir"};
  mkdir((folder + "/templates").c_str(), 0700);
  std::string text = heavyBall;
  text.replace(text.find("heavy_ball"), 10, "sgd");
  for (const std::string &file : files)
    std::ofstream(folder + file) << text;
  char old[PATH_MAX];
  ASSERT_TRUE(getcwd(old, sizeof old) && chdir(folder.c_str()) == 0);
  Tensor param = at::zeros({4}).requires_grad_();
  param.mutable_grad() = at::ones({4});
  // In a storage that no bundle was built for.
  RuleOptimizer stock({param}, RuleSpec("sgd").storage("step=i64"),
                      RuleOptions(0.5));
  stock.step();
  stock.step();
  EXPECT_TRUE(at::equal(param.detach(), at::full({4}, -1.0)));
  RuleOptimizer own({param}, "sgd.mlir", RuleOptions(0.5));
  own.step();
  EXPECT_TRUE(at::equal(param.detach(), at::full({4}, -1.5)));
  EXPECT_EQ(
      static_cast<RuleOptions &>(own.param_groups()[0].options()).hyper("drag"),
      0.5);
  ASSERT_EQ(chdir(old), 0);
  for (const std::string &file : files)
    std::remove((folder + file).c_str());
  rmdir((folder + "/templates").c_str());
}

// A rule is text that somebody may have sent.
TEST(Refusal, OfGroupsThatCameLater) {
  using torch::optim::OptimizerParamGroup;
  auto add = [](std::unique_ptr<torch::optim::OptimizerOptions> options) {
    RuleOptimizer optimizer({leaf({3})}, "adamw", RuleOptions(0.1));
    optimizer.step();
    Tensor later = leaf({4}), before = later.detach().clone();
    std::string said;
    try {
      optimizer.add_param_group(OptimizerParamGroup({later}, std::move(options)));
    } catch (const c10::Error &error) {
      said = error.what();
    }
    optimizer.step();
    EXPECT_TRUE(sameBits(later.detach(), before));
    EXPECT_EQ(optimizer.state().size(), 1u);
    return said;
  };
  EXPECT_THAT(
      add(std::make_unique<RuleOptions>(RuleOptions().hyper("lrr", 1))),
      testing::HasSubstr("the rule has no hyper-parameter 'lrr' (there are: "));
  EXPECT_THAT(add(std::make_unique<AdamWOptions>(0.1)),
              testing::HasSubstr("a group has torch::optim::AdamWOptions, "
                                 "expected altgrad::optim::RuleOptions"));
}

TEST(Refusal, OfNamesThatMeet) {
  Tensor param = leaf({5});
  auto with = [&](RuleSpec spec) {
    try {
      RuleOptimizer optimizer({param}, spec);
      ADD_FAILURE() << "no error";
    } catch (const c10::Error &error) {
      return std::string(error.what_without_backtrace());
    }
    return std::string();
  };
  std::string both = "altgrad: 'v' of the rule would be kept as 'm'";
  EXPECT_EQ(with(RuleSpec("adamw").state_names({{"v", "m"}})).find(both), 0u);
  EXPECT_NE(with(RuleSpec("adamw").state_names({{"m", "step"}})), "");
  EXPECT_NE(with(RuleSpec("adamw").state_names({{"t", "v"}})), "");
  EXPECT_NE(with(RuleSpec("adamw")
                     .storage("master=f32")
                     .state_names({{"m", "master"}})),
            "");
}

TEST(Refusal, OfWordsThatAreOptionsOfTheCompiler) {
  std::vector<Tensor> params{leaf({3})};
  for (RuleSpec spec :
       {RuleSpec("adamw\n--clip"), RuleSpec("adamw").storage("m=bf16\n--clip"),
        RuleSpec("adamw").rule_path("/\n--clip"),
        RuleSpec("adamw").storage(std::string("m=bf16\0--clip", 13))})
    EXPECT_THROW(RuleOptimizer(params, spec), c10::Error);
  EXPECT_THROW(
      RuleOptimizer(params, "sgd", RuleOptions().option("maximize}\n--clip")),
      c10::Error);
}

TEST(Refusal, OfRulesAndOptions) {
  std::vector<Tensor> params{leaf({3})};
  EXPECT_THROW(RuleOptimizer(params, "no_such_rule"), c10::Error);
  EXPECT_THROW(RuleOptimizer(params, RuleSpec().text("altgrad.rule @x(")),
               c10::Error);
  EXPECT_THROW(RuleOptimizer(params, RuleSpec()), c10::Error);
  EXPECT_THROW(RuleOptimizer(params, "lion", RuleOptions().hyper("eps", 1)),
               c10::Error);
  EXPECT_THROW(RuleOptimizer(params, "lion", RuleOptions().option("amsgrad")),
               c10::Error);
  EXPECT_THROW(RuleOptimizer(params, RuleSpec("lion").storage("param=f32")),
               c10::Error);
  EXPECT_THROW(AdamW(params, AdamWOptions(-1)), c10::Error);
  auto refused = [](const auto &make) {
    try {
      make();
    } catch (const c10::Error &error) {
      return std::string(error.what()); // and no backtrace behind it
    }
    return std::string();
  };
  EXPECT_EQ(refused([&] { AdamW(params, AdamWOptions(1e-3), RuleSpec("lion")); }),
            "altgrad: AdamW runs the rule 'adamw', and the RuleSpec names 'lion'; take RuleOptimizer for that, or leave "
            "the rule out");
  EXPECT_THAT(refused([&] { Lion(params, RuleOptions(1e-3), RuleSpec("adamw")); }),
              testing::StartsWith("altgrad: Lion runs the rule 'lion', and the RuleSpec names 'adamw'"));
  EXPECT_THAT(refused([&] { AdamW8bit(params, AdamWOptions(1e-3), RuleSpec().text("rule r(param w, grad g)")); }),
              testing::StartsWith("altgrad: AdamW8bit runs the rule 'adamw', and the RuleSpec has a text"));
  EXPECT_THROW(AdamW(params, AdamWOptions().betas({1.0, 0.9})), c10::Error);
  AdamW plain(params);
  EXPECT_THROW(plain.set_max_grad_norm(1), c10::Error);
}

} // namespace
