// A step of two sets of tensors: words that they share, counts of their own.
#include "Sgd.h"

#include <cmath>

namespace {

// Three tensors of set 0 in groups 0 and 2, two of set 1 in group 1; group 3
// has none.
struct Mixed {
  Mixed() {
    for (size_t i = 0; i < 5; ++i)
      for (int64_t e = 0; e < list[i].numel; ++e) {
        g[i].push_back(float(int(e * 37 + int(i)) % 101 - 50) / 64);
        w[i].push_back(float(int(e * 53 + int(i)) % 211 - 100) / 32);
        w64[i].push_back(w[i].back());
      }
    for (size_t i = 0; i < 5; ++i)
      most[i].resize(w[i].size() / 32 + 1);
  }

  void *at(std::vector<float> &v) { return v.empty() ? nullptr : v.data(); }

  void bindStreams(altgrad_plan *plan) {
    void *g0[] = {at(g[0]), at(g[1]), at(g[2])}, *g1[] = {at(g[3]), at(g[4])};
    void *w0[] = {at(w[0]), at(w[1]), at(w[2])};
    void *w1[] = {w64[3].data(), w64[4].data()};
    void *m1[] = {at(most[3]), at(most[4])};
    ASSERT_ALTGRAD(altgrad_bind_stream(plan, "w_1", w1, 2));
    ASSERT_ALTGRAD(altgrad_bind_stream(plan, "g", g0, 3));
    ASSERT_ALTGRAD(altgrad_bind_stream(plan, "g_1", g1, 2));
    ASSERT_ALTGRAD(altgrad_bind_stream(plan, "w", w0, 3));
    ASSERT_ALTGRAD(altgrad_bind_stream(plan, "most_1", m1, 2));
  }

  // NULL where a group has no tensor of the scalar's set.
  void bindScalars(altgrad_plan *plan) {
    void *rates[] = {&rate[0], nullptr, &rate[1], nullptr};
    void *halves[] = {nullptr, &half, nullptr, nullptr};
    void *decays[] = {&decay[0], &decay[1], &decay[2], nullptr};
    void *seens[] = {&seen[0], &seen[1], &seen[2], &seen[3], &seen[4]};
    void *ts[] = {&t[0], &t[1], &t[2]}, *norms[] = {&norm};
    ASSERT_ALTGRAD(altgrad_bind_scalar(plan, "rate", rates, 4));
    ASSERT_ALTGRAD(altgrad_bind_scalar(plan, "half_1", halves, 4));
    ASSERT_ALTGRAD(altgrad_bind_scalar(plan, "decay", decays, 4));
    ASSERT_ALTGRAD(altgrad_bind_scalar(plan, "seen", seens, 5));
    ASSERT_ALTGRAD(altgrad_bind_scalar(plan, "t", ts, 3));
    ASSERT_ALTGRAD(altgrad_bind_scalar(plan, "norm", norms, 1));
  }

  void bind(altgrad_plan *plan) {
    ASSERT_ALTGRAD(altgrad_bind_tensors(plan, list, 5, 4));
    bindStreams(plan);
    bindScalars(plan);
    ASSERT_ALTGRAD(altgrad_workspace(plan, &bytes));
    workspace.reset(aligned_alloc(64, bytes));
  }

  altgrad_status run(altgrad_plan *plan, int64_t first = 0, int64_t last = -1) {
    return altgrad_run(plan, workspace.get(), bytes, first, last, nullptr);
  }

  void step() {
    float sum = 0;
    for (size_t i = 0; i < 5; ++i)
      for (size_t first = 0; first < g[i].size(); first += 4096) {
        float part = 0;
        for (size_t e = first; e < std::min(first + 4096, g[i].size()); ++e)
          part += std::fabs(g[i][e]);
        sum += part;
      }
    norm = sum;
    for (size_t i = 0; i < 5; ++i)
      for (size_t e = 0; e < g[i].size(); ++e) {
        float add = decay[list[i].group];
        w[i][e] = w[i][e] - float(rate[list[i].group == 2]) * g[i][e] + add;
        w64[i][e] = w64[i][e] - half * g[i][e] + add;
        float size = float(std::fabs(w64[i][e]));
        if (e % 32 == 0 || size > most[i][e / 32])
          most[i][e / 32] = size;
      }
  }

  altgrad_tensor list[5] = {declared(5000, 0), declared(0, 2), declared(3, 2),
                            declared(4100, 1, 1), declared(31, 1, 1)};
  std::vector<float> g[5], w[5], most[5];
  std::vector<double> w64[5];
  double rate[2] = {0.5, 0.125};
  float decay[3] = {1, 2, 4}, half = 0.5, norm = 0;
  int64_t seen[5] = {}, t[3] = {};
  std::unique_ptr<void, FreeMemory> workspace;
  uint64_t bytes = 0;
};

TEST(Runtime, SetsHaveTheirOwnStreamsAndScalars) {
  Mixed actual, expected;
  PlanPointer plan = planSets();
  actual.bind(plan.get());
  for (int i = 0; i < 2; ++i) {
    ASSERT_ALTGRAD(actual.run(plan.get()));
    expected.step();
  }
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(actual.w[i], expected.w[i]) << i;
  for (size_t i : {3, 4}) {
    EXPECT_EQ(actual.w64[i], expected.w64[i]) << i;
    for (size_t b = 0; b < (actual.w64[i].size() + 31) / 32; ++b)
      ASSERT_EQ(actual.most[i][b], expected.most[i][b]) << i << " " << b;
  }
  EXPECT_EQ(actual.norm, expected.norm);
  for (int64_t seen : actual.seen)
    EXPECT_EQ(seen, 2);
  for (int64_t t : actual.t)
    EXPECT_EQ(t, 2);
}

TEST(Runtime, BindingAScalarAgainLeavesTheOtherSetsAlone) {
  Mixed actual, expected;
  PlanPointer plan = planSets();
  actual.bind(plan.get());
  double other = 0;
  void *rates[] = {&other, &other, &other, &other};
  ASSERT_ALTGRAD(altgrad_bind_scalar(plan.get(), "rate", rates, 4));
  ASSERT_ALTGRAD(actual.run(plan.get()));
  expected.rate[0] = expected.rate[1] = 0;
  expected.step();
  EXPECT_EQ(actual.w[0], expected.w[0]);
  EXPECT_EQ(actual.w64[3], expected.w64[3]);
}

TEST(Runtime, CountsAreThoseOfTheSet) {
  Mixed mixed;
  PlanPointer plan = planSets();
  mixed.bind(plan.get());
  void *pointers[5] = {&mixed, &mixed, &mixed, &mixed, &mixed};
  struct Row {
    const char *stream, *words;
  } rows[] = {{"g", "stream g: 5 pointers, needs 3"},
              {"w_1", "stream w_1: 5 pointers, needs 2"}};
  for (const Row &row : rows)
    EXPECT_REFUSED(altgrad_bind_stream(plan.get(), row.stream, pointers, 5),
                   ALTGRAD_INVALID, row.words);
  EXPECT_REFUSED(altgrad_bind_scalar(plan.get(), "t", pointers, 5),
                 ALTGRAD_INVALID, "scalar t: 5 pointers, needs 3");
  EXPECT_REFUSED(altgrad_bind_scalar(plan.get(), "seen", pointers, 3),
                 ALTGRAD_INVALID, "scalar seen: 3 pointers, needs 5");
  EXPECT_REFUSED(altgrad_bind_scalar(plan.get(), "half_1", pointers, 1),
                 ALTGRAD_INVALID, "scalar half_1: 1 pointers, needs 4");
  void *none[4] = {};
  EXPECT_REFUSED(altgrad_bind_scalar(plan.get(), "half_1", none, 4),
                 ALTGRAD_INVALID, "scalar half_1, pointer 1: (nil) is NULL");
  EXPECT_REFUSED(altgrad_bind_stream(plan.get(), "w_1", none, 2),
                 ALTGRAD_INVALID,
                 "stream w_1, tensor 0: pointer (nil) is NULL");
}

TEST(Runtime, ASetWithoutTensorsHasNothingToDo) {
  Mixed actual, expected;
  PlanPointer plan = planSets();
  ASSERT_ALTGRAD(altgrad_bind_tensors(plan.get(), actual.list + 3, 2, 2));
  void *g[] = {actual.g[3].data(), actual.g[4].data()};
  void *w[] = {actual.w64[3].data(), actual.w64[4].data()};
  void *most[] = {actual.most[3].data(), actual.most[4].data()};
  void *half[] = {nullptr, &actual.half}, *norm[] = {&actual.norm};
  void *decay[] = {nullptr, &actual.decay[1]};
  void *seen[] = {&actual.seen[3], &actual.seen[4]},
       *rate[] = {nullptr, nullptr};
  ASSERT_ALTGRAD(altgrad_bind_stream(plan.get(), "g_1", g, 2));
  ASSERT_ALTGRAD(altgrad_bind_stream(plan.get(), "w_1", w, 2));
  ASSERT_ALTGRAD(altgrad_bind_stream(plan.get(), "most_1", most, 2));
  ASSERT_ALTGRAD(altgrad_bind_scalar(plan.get(), "half_1", half, 2));
  ASSERT_ALTGRAD(altgrad_bind_scalar(plan.get(), "decay", decay, 2));
  ASSERT_ALTGRAD(altgrad_bind_scalar(plan.get(), "seen", seen, 2));
  ASSERT_ALTGRAD(altgrad_bind_scalar(plan.get(), "norm", norm, 1));
  EXPECT_REFUSED(actual.run(plan.get()), ALTGRAD_INVALID, "not bound: rate");
  ASSERT_ALTGRAD(altgrad_bind_scalar(plan.get(), "rate", rate, 2));
  ASSERT_ALTGRAD(altgrad_workspace(plan.get(), &actual.bytes));
  actual.workspace.reset(aligned_alloc(64, actual.bytes));
  ASSERT_ALTGRAD(actual.run(plan.get()));
  expected.step();
  EXPECT_EQ(actual.w64[3], expected.w64[3]);
  EXPECT_EQ(actual.w64[4], expected.w64[4]);
  EXPECT_EQ(actual.seen[4], 1);
}

// What another rank adds at an exchange is in the norm that is written.
TEST(Runtime, AnExchangeIsBetweenTwoPhases) {
  Mixed actual, expected;
  PlanPointer plan = planSets();
  BundlePointer bundle = loadSgd(SETS_BUNDLE);
  actual.bind(plan.get());
  ASSERT_EQ(altgrad_exchange_count(bundle.get()), 1);
  altgrad_exchange_info exchange = {sizeof exchange, 0, 0};
  altgrad_exchange_word word = {sizeof word, 0, 0};
  ASSERT_ALTGRAD(altgrad_exchange_at(bundle.get(), 0, &exchange));
  ASSERT_ALTGRAD(altgrad_exchange_word_at(bundle.get(), 0, 0, &word));
  ASSERT_EQ(word.reduction, ALTGRAD_ADD);
  ASSERT_ALTGRAD(actual.run(plan.get(), 0, exchange.phase));
  *(float *)((char *)actual.workspace.get() + word.offset) += 1000;
  ASSERT_ALTGRAD(actual.run(plan.get(), exchange.phase));
  expected.step();
  EXPECT_EQ(actual.norm, expected.norm + 1000);
}

} // namespace
