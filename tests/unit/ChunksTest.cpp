// A sweep that runs chunk by chunk before its run, and what is refused.
#include "Sgd.h"

namespace {

altgrad_status runChunks(altgrad_plan *plan, Tensors &t, int64_t phase,
                         int64_t first, int64_t last) {
  return altgrad_run_chunks(plan, t.workspace.get(), t.workspaceBytes, phase,
                            first, last);
}

// Phase 0 of this bundle sums the gradients. In any order, the last time of
// each tensor counts.
TEST(Runtime, ChunksTensorByTensorAreARunOfTheirSweep) {
  for (int threads : {1, 3}) {
    Tensors actual(awkwardSizes()), expected(awkwardSizes());
    PlanPointer plan = planSgd();
    ASSERT_ALTGRAD(altgrad_set_threads(plan.get(), threads));
    actual.bind(plan.get());
    std::vector<std::vector<float>> moved = actual.grads;
    int64_t end = 0;
    for (std::vector<float> &of : moved)
      end += (int64_t(of.size()) + ALTGRAD_CHUNK - 1) / ALTGRAD_CHUNK;
    for (int64_t row = int64_t(moved.size()) - 1; row >= 0; --row) {
      std::vector<float> &to = moved[size_t(row)];
      int64_t begin =
          end - (int64_t(to.size()) + ALTGRAD_CHUNK - 1) / ALTGRAD_CHUNK;
      void *pointer = to.empty() ? nullptr : to.data();
      std::vector<float> last = to;
      std::fill(to.begin(), to.end(), 1e30f);
      ASSERT_ALTGRAD(altgrad_bind_tensor(plan.get(), "grads", row, pointer));
      ASSERT_ALTGRAD(runChunks(plan.get(), actual, 0, begin, end));
      to = last;
      ASSERT_ALTGRAD(altgrad_bind_tensor(plan.get(), "grads", row,
                                         to.empty() ? nullptr : to.data()));
      ASSERT_ALTGRAD(runChunks(plan.get(), actual, 0, begin, end));
      end = begin;
    }
    ASSERT_ALTGRAD(actual.run(plan.get(), 1));
    expected.step();
    EXPECT_TRUE(actual.equals(expected)) << threads << " threads";
  }
}

TEST(Runtime, ChunksThatAreNotThereAreRefused) {
  Tensors t({8, 4097});
  PlanPointer plan = planSgd();
  EXPECT_REFUSED(runChunks(plan.get(), t, 0, 0, 1), ALTGRAD_INVALID,
                 "chunks [0, 1) of 0");
  EXPECT_REFUSED(altgrad_bind_tensor(plan.get(), "grads", 0, &t),
                 ALTGRAD_INVALID, "no tensors bound");
  t.bind(plan.get());
  EXPECT_REFUSED(runChunks(plan.get(), t, 0, -1, 1), ALTGRAD_INVALID,
                 "chunks [-1, 1) of 3");
  EXPECT_REFUSED(runChunks(plan.get(), t, 0, 1, 4), ALTGRAD_INVALID,
                 "chunks [1, 4) of 3");
  EXPECT_REFUSED(runChunks(plan.get(), t, 1, 0, 1), ALTGRAD_INVALID,
                 "is no sweep");
  EXPECT_REFUSED(runChunks(plan.get(), t, 99, 0, 1), ALTGRAD_INVALID,
                 "phases [99, 100)");
  EXPECT_REFUSED(runChunks(nullptr, t, 0, 0, 1), ALTGRAD_INVALID, "NULL");
  EXPECT_REFUSED(altgrad_bind_tensor(plan.get(), "grads", 2, &t),
                 ALTGRAD_INVALID, "tensor 2 of 2");
  EXPECT_REFUSED(altgrad_bind_tensor(plan.get(), "grads", 0, nullptr),
                 ALTGRAD_INVALID, "is NULL");
  EXPECT_REFUSED(altgrad_bind_tensor(plan.get(), "master", 0, &t),
                 ALTGRAD_INVALID, "is written");
  EXPECT_REFUSED(altgrad_bind_tensor(plan.get(), "none", 0, &t),
                 ALTGRAD_NOT_FOUND, "no stream");
}

} // namespace
