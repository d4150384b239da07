// Phases that run for some tensors at a time.
#include "CudaFixture.h"

namespace {

altgrad_status runTensors(altgrad_plan *plan, Tensors &t, int64_t firstPhase,
                          int64_t lastPhase, int64_t first, int64_t last) {
  return altgrad_run_tensors(plan, t.workspace.get(), t.workspaceBytes,
                             firstPhase, lastPhase, first, last, nullptr);
}

// Norm of the gradients, its total, step counts, update: all but the total in
// ranges, the last tensors first.
void stepsInRanges(const char *device) {
  const std::vector<int64_t> sizes = awkwardSizes();
  const int64_t count = int64_t(sizes.size());
  for (int64_t width : {int64_t(1), int64_t(3), count}) {
    Tensors actual(sizes), expected(sizes);
    PlanPointer plan = planSgd(device);
    actual.bind(plan.get());
    auto inRanges = [&](int64_t firstPhase, int64_t lastPhase) {
      for (int64_t end = count; end > 0; end -= width)
        ASSERT_ALTGRAD(runTensors(plan.get(), actual, firstPhase, lastPhase,
                                  std::max<int64_t>(0, end - width), end));
    };
    for (int step = 0; step < 3; ++step) {
      inRanges(0, 1);
      ASSERT_ALTGRAD(actual.run(plan.get(), 1, 2));
      inRanges(2, 4);
      if (*device == 'c' && device[1] == 'u')
        fakecuda_drain();
      expected.step();
    }
    EXPECT_TRUE(actual.equals(expected)) << width << " at a time";
  }
}

TEST_F(Cuda, RangesOfTensorsOnTheHost) { stepsInRanges("cpu"); }
TEST_F(Cuda, RangesOfTensorsOnADevice) { stepsInRanges("cuda:0"); }

TEST_F(Cuda, TensorsOutsideOfARangeAreNotTouched) {
  for (const char *device : {"cpu", "cuda:0"}) {
    Tensors t({5000, 7, 0, 4096}), before({5000, 7, 0, 4096});
    PlanPointer plan = planSgd(device);
    t.bind(plan.get());
    const uint8_t present[] = {1, 0, 1, 1};
    ASSERT_ALTGRAD(altgrad_bind_present(plan.get(), present, 4));
    ASSERT_ALTGRAD(t.run(plan.get(), 0, 2));
    ASSERT_ALTGRAD(runTensors(plan.get(), t, 2, 4, 1, 4));
    ASSERT_ALTGRAD(runTensors(plan.get(), t, 2, 4, 2, 2));
    fakecuda_drain();
    EXPECT_EQ(t.master[0], before.master[0]) << device;
    EXPECT_EQ(t.master[1], before.master[1]) << device << ": absent";
    EXPECT_NE(t.master[3], before.master[3]) << device;
    EXPECT_EQ(t.t, (std::vector<int64_t>{0, 0, 1, 1})) << device;
  }
}

TEST(Runtime, RangesThatAreNotThereAreRefused) {
  Tensors t({8, 4097});
  PlanPointer plan = planSgd();
  t.bind(plan.get());
  EXPECT_REFUSED(runTensors(plan.get(), t, 0, 1, -1, 1), ALTGRAD_INVALID,
                 "tensors [-1, 1) of 2");
  EXPECT_REFUSED(runTensors(plan.get(), t, 0, 1, 1, 3), ALTGRAD_INVALID,
                 "tensors [1, 3) of 2");
  EXPECT_REFUSED(runTensors(plan.get(), t, 0, 1, 2, 1), ALTGRAD_INVALID,
                 "tensors [2, 1) of 2");
  EXPECT_REFUSED(runTensors(plan.get(), t, 0, 4, 0, 1), ALTGRAD_INVALID,
                 "phase 1, total, is of the step and not of tensors: run it "
                 "with altgrad_run");
  EXPECT_REFUSED(runTensors(plan.get(), t, 3, 5, 0, 1), ALTGRAD_INVALID,
                 "phases [3, 5) of 4");
  EXPECT_REFUSED(runTensors(nullptr, t, 0, 1, 0, 1), ALTGRAD_INVALID, "NULL");
}

} // namespace
