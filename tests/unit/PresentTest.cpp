// Tensors that take no part in a run.
#include "CudaFixture.h"

namespace {

// What a step without the absent tensors makes of all of them.
void stepWithout(Tensors &t, const std::vector<uint8_t> &present) {
  Tensors before = Tensors({});
  before.master = t.master, before.model = t.model, before.t = t.t;
  std::vector<std::vector<float>> grads = t.grads;
  for (size_t i = 0; i < present.size(); ++i)
    if (!present[i])
      std::fill(t.grads[i].begin(), t.grads[i].end(), 0.0f);
  t.step();
  t.grads = grads;
  for (size_t i = 0; i < present.size(); ++i)
    if (!present[i]) {
      t.master[i] = before.master[i];
      t.model[i] = before.model[i];
      t.t[i] = before.t[i];
    }
}

void stepsInTurns(const char *device) {
  const std::vector<int64_t> sizes{5000, 7, 0, 4096, 9000};
  Tensors actual(sizes), expected(sizes);
  PlanPointer plan = planSgd(device);
  actual.bind(plan.get());
  for (unsigned step = 0; step < 40; ++step) {
    std::vector<uint8_t> present;
    std::vector<void *> grads = Tensors::pointers(actual.grads);
    for (size_t i = 0; i < sizes.size(); ++i) {
      present.push_back((step * 11 >> i) & 1);
      if (!present[i])
        grads[i] = nullptr;
    }
    ASSERT_ALTGRAD(
        altgrad_bind_present(plan.get(), present.data(), int64_t(sizes.size())));
    ASSERT_ALTGRAD(altgrad_bind_stream(plan.get(), "grads", grads.data(),
                                       int64_t(sizes.size())));
    ASSERT_ALTGRAD(actual.run(plan.get()));
    if (*device == 'c' && device[1] == 'u')
      fakecuda_drain();
    stepWithout(expected, present);
    ASSERT_TRUE(actual.equals(expected)) << step;
  }
}

TEST_F(Cuda, TensorsThatAreAbsentInTurnsOnTheHost) { stepsInTurns("cpu"); }
TEST_F(Cuda, TensorsThatAreAbsentInTurnsOnADevice) { stepsInTurns("cuda:0"); }

TEST_F(Cuda, AnAbsentTensorIsUploadedOnceAndAllocatesNothing) {
  Tensors t({5000, 7, 4096});
  PlanPointer plan = planSgd("cuda:0");
  t.bind(plan.get());
  ASSERT_ALTGRAD(t.run(plan.get()));
  const uint8_t present[] = {1, 0, 1};
  ASSERT_ALTGRAD(altgrad_bind_present(plan.get(), present, 3));
  fakecuda_clear_calls();
  for (int i = 0; i < 3; ++i)
    ASSERT_ALTGRAD(t.run(plan.get()));
  EXPECT_EQ(fakecuda_calls("cuMemcpyHtoDAsync"), 1);
  EXPECT_EQ(fakecuda_calls("cuMemAlloc"), 0);
}

TEST(Runtime, WhoComesBackWithoutAPointerIsRefused) {
  Tensors t({5000, 7}), before({5000, 7});
  PlanPointer plan = planSgd();
  uint8_t present[] = {1, 0};
  EXPECT_REFUSED(altgrad_bind_present(plan.get(), present, 2), ALTGRAD_INVALID,
                 "no tensors bound");
  t.bind(plan.get());
  EXPECT_REFUSED(altgrad_bind_present(plan.get(), present, 3), ALTGRAD_INVALID,
                 "of 2");
  EXPECT_REFUSED(altgrad_bind_present(nullptr, present, 2), ALTGRAD_INVALID,
                 "plan is NULL");
  ASSERT_ALTGRAD(altgrad_bind_present(plan.get(), present, 2));
  void *grads[] = {t.grads[0].data(), nullptr};
  ASSERT_ALTGRAD(altgrad_bind_stream(plan.get(), "grads", grads, 2));
  ASSERT_ALTGRAD(altgrad_bind_present(plan.get(), nullptr, 0));
  EXPECT_REFUSED(t.run(plan.get()), ALTGRAD_INVALID,
                 "stream grads, tensor 1: pointer (nil) is NULL");
  EXPECT_EQ(t.master, before.master) << "nothing has run";
}

} // namespace
