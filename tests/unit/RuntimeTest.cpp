// The runtime against a bundle written by hand: no compiler is involved.
#include "Sgd.h"
#include "altgrad/bundle.h"

#include <dlfcn.h>
#include <pthread.h>
#include <xmmintrin.h>

namespace {

TEST(Runtime, VersionNamesTheAbi) {
  int major, minor, patch, abi;
  ASSERT_EQ(sscanf(altgrad_version(), "altgrad %d.%d.%d, ABI %d", &major, &minor, &patch, &abi), 4);
  EXPECT_EQ(abi, ALTGRAD_ABI);
}

TEST(Runtime, OneRunIsOneStep) {
  Tensors actual(awkwardSizes()), expected(awkwardSizes());
  PlanPointer plan = planSgd();
  actual.bind(plan.get());
  for (int i = 0; i < 3; ++i) {
    ASSERT_ALTGRAD(actual.run(plan.get()));
    expected.step();
    ASSERT_TRUE(actual.equals(expected));
  }
}

TEST(Runtime, PhasesOneByOneAreOneStep) {
  Tensors actual(awkwardSizes()), expected(awkwardSizes());
  PlanPointer plan = planSgd();
  actual.bind(plan.get());
  int64_t phases = altgrad_phase_count(loadSgd().get());
  for (int64_t i = 0; i < phases; ++i)
    ASSERT_ALTGRAD(actual.run(plan.get(), i, i + 1));
  expected.step();
  EXPECT_TRUE(actual.equals(expected));
  EXPECT_REFUSED(actual.run(plan.get(), 2, 5), ALTGRAD_INVALID,
                 "phases [2, 5) of 4");
  EXPECT_REFUSED(actual.run(plan.get(), 3, 2), ALTGRAD_INVALID, "phases [3, 2");
}

TEST(Runtime, AnyNumberOfThreadsGivesTheSameBytes) {
  std::vector<int64_t> sizes = {3000000, 5, 700000, 4096};
  Tensors expected(sizes);
  expected.step();
  for (int threads : {1, 2, 3, 8}) {
    Tensors actual(sizes);
    PlanPointer plan = planSgd();
    ASSERT_ALTGRAD(altgrad_set_threads(plan.get(), threads));
    actual.bind(plan.get());
    ASSERT_ALTGRAD(actual.run(plan.get()));
    EXPECT_TRUE(actual.equals(expected)) << threads << " threads";
  }
}

TEST(Runtime, BothLevelsRun) {
  for (const char *device : {"cpu:v3", "cpu:v4"}) {
    altgrad_plan *raw = nullptr;
    BundlePointer bundle = loadSgd();
    if (altgrad_plan_create(bundle.get(), device, &raw) == ALTGRAD_UNAVAILABLE)
      GTEST_SKIP() << altgrad_last_error();
    PlanPointer plan(raw);
    Tensors actual({5000}), expected({5000});
    actual.bind(plan.get());
    ASSERT_ALTGRAD(actual.run(plan.get()));
    expected.step();
    EXPECT_TRUE(actual.equals(expected)) << device;
  }
}

int64_t calls;
int32_t backwards(int64_t begin, int64_t end, int64_t grain,
               void (*body)(int64_t, int64_t, void *), void *context) {
  ++calls;
  for (int64_t i = end; i > begin; i -= grain)
    body(std::max(begin, i - grain), i, context);
  return 0;
}

TEST(Runtime, AParallelForThatFailsFailsTheRun) {
  Tensors t({500000});
  PlanPointer plan = planSgd();
  altgrad_parallel_for fails = [](int64_t, int64_t, int64_t,
                                  void (*)(int64_t, int64_t, void *),
                                  void *) -> int32_t { return 1; };
  ASSERT_ALTGRAD(altgrad_set_parallel_for(plan.get(), fails));
  t.bind(plan.get());
  EXPECT_REFUSED(t.run(plan.get()), ALTGRAD_SYSTEM,
                 "the caller's parallel_for failed (1)");
}

TEST(Runtime, CallersParallelForIsUsed) {
  Tensors actual({500000, 3}), expected({500000, 3});
  PlanPointer plan = planSgd();
  ASSERT_ALTGRAD(altgrad_set_parallel_for(plan.get(), backwards));
  actual.bind(plan.get());
  calls = 0;
  ASSERT_ALTGRAD(actual.run(plan.get()));
  expected.step();
  EXPECT_TRUE(actual.equals(expected));
  EXPECT_EQ(calls, 2) << "two phases over 124 chunks, two small ones";
  ASSERT_ALTGRAD(altgrad_set_parallel_for(plan.get(), nullptr));
  ASSERT_ALTGRAD(actual.run(plan.get()));
  EXPECT_EQ(calls, 2);
}

TEST(Runtime, ZeroRowsRun) {
  Tensors none({});
  none.gnorm = 5;
  PlanPointer plan = planSgd();
  none.bind(plan.get());
  ASSERT_ALTGRAD(none.run(plan.get()));
  EXPECT_EQ(none.gnorm, 0) << "the phase that runs once has run";
}

TEST(Runtime, EmptyTensorsStillCountTheirSteps) {
  Tensors empty({0, 0, 0});
  PlanPointer plan = planSgd();
  empty.bind(plan.get());
  ASSERT_ALTGRAD(empty.run(plan.get()));
  EXPECT_EQ(empty.t, std::vector<int64_t>(3, 1));
}

TEST(Runtime, UnboundNamesAreNamed) {
  PlanPointer plan = planSgd();
  altgrad_tensor tensor = declared(4);
  EXPECT_REFUSED(altgrad_run(plan.get(), nullptr, 0, 0, -1, nullptr),
                 ALTGRAD_INVALID, "no tensors bound");
  ASSERT_ALTGRAD(altgrad_bind_tensors(plan.get(), &tensor, 1, 1));
  float value = 0;
  void *pointer = &value;
  ASSERT_ALTGRAD(altgrad_bind_stream(plan.get(), "master", &pointer, 1));
  EXPECT_REFUSED(altgrad_run(plan.get(), nullptr, 0, 0, -1, nullptr),
                 ALTGRAD_INVALID, "not bound: grads, model, lr, t, gnorm");
}

TEST(Runtime, BindingTensorsForgetsPointers) {
  Tensors tensors({5});
  PlanPointer plan = planSgd();
  tensors.bind(plan.get());
  ASSERT_ALTGRAD(tensors.run(plan.get()));
  ASSERT_ALTGRAD(altgrad_bind_tensors(plan.get(), tensors.list.data(), 1, 2));
  EXPECT_REFUSED(tensors.run(plan.get()), ALTGRAD_INVALID, "not bound: grads");
}

TEST(Runtime, UnknownNamesListTheKnown) {
  Tensors tensors({5});
  PlanPointer plan = planSgd();
  tensors.bind(plan.get());
  void *pointer = &tensors;
  EXPECT_REFUSED(altgrad_bind_stream(plan.get(), "grad", &pointer, 1),
                 ALTGRAD_NOT_FOUND,
                 "no stream \"grad\" (there are: grads, master, model)");
  EXPECT_REFUSED(altgrad_bind_scalar(plan.get(), "grads", &pointer, 1),
                 ALTGRAD_NOT_FOUND, "(there are: lr, t, gnorm)");
}

TEST(Runtime, WrongCountsAreRefused) {
  Tensors tensors({5, 6});
  PlanPointer plan = planSgd();
  tensors.bind(plan.get());
  void *pointers[3] = {&tensors, &tensors, &tensors};
  EXPECT_REFUSED(altgrad_bind_stream(plan.get(), "grads", pointers, 3),
                 ALTGRAD_INVALID, "stream grads: 3 pointers, needs 2");
  EXPECT_REFUSED(altgrad_bind_scalar(plan.get(), "gnorm", pointers, 2),
                 ALTGRAD_INVALID, "scalar gnorm: 2 pointers, needs 1");
  EXPECT_REFUSED(altgrad_bind_stream(plan.get(), "grads", nullptr, 2),
                 ALTGRAD_INVALID, "at NULL");
  ASSERT_ALTGRAD(tensors.run(plan.get())) << "nothing was changed";
}

TEST(Runtime, BadPointersAreRefused) {
  Tensors tensors({5, 0});
  PlanPointer plan = planSgd();
  tensors.bind(plan.get());
  void *null[2] = {nullptr, nullptr};
  EXPECT_REFUSED(altgrad_bind_stream(plan.get(), "grads", null, 2),
                 ALTGRAD_INVALID,
                 "stream grads, tensor 0: pointer (nil) is NULL");
  void *odd[2] = {(char *)tensors.grads[0].data() + 2, nullptr};
  EXPECT_REFUSED(altgrad_bind_stream(plan.get(), "grads", odd, 2),
                 ALTGRAD_INVALID, "not aligned");
  EXPECT_REFUSED(altgrad_bind_scalar(plan.get(), "t", null, 2), ALTGRAD_INVALID,
                 "scalar t, pointer 0");
}

TEST(Runtime, BadWorkspacesAreRefused) {
  Tensors t({5000});
  PlanPointer plan = planSgd();
  t.bind(plan.get());
  uint64_t bytes = t.workspaceBytes;
  char *memory = static_cast<char *>(t.workspace.get());
  altgrad_plan *p = plan.get();
  EXPECT_REFUSED(altgrad_run(p, memory, bytes - 1, 0, -1, nullptr),
                 ALTGRAD_INVALID, "workspace has");
  EXPECT_REFUSED(altgrad_run(p, memory + 32, bytes, 0, -1, nullptr),
                 ALTGRAD_INVALID, "64-byte aligned");
  EXPECT_REFUSED(altgrad_run(p, nullptr, bytes, 0, -1, nullptr),
                 ALTGRAD_INVALID, "64-byte aligned");
}

TEST(Runtime, PartialsAreWhereTheKernelsLeftThem) {
  Tensors t({4096 * 2 + 1, 3});
  PlanPointer plan = planSgd();
  t.bind(plan.get());
  ASSERT_ALTGRAD(t.run(plan.get(), 0, 1));
  uint64_t offset = 0;
  int64_t words = 0, chunks = 0;
  ASSERT_ALTGRAD(altgrad_partials(plan.get(), &offset, &words, &chunks));
  EXPECT_EQ(words, 1);
  ASSERT_EQ(chunks, 4);
  EXPECT_EQ(offset % 64, 0u);
  auto *part = (const float *)((char *)t.workspace.get() + offset);
  EXPECT_EQ(part[2], t.grads[0][8192] * t.grads[0][8192]);
  ASSERT_ALTGRAD(altgrad_partials(plan.get(), nullptr, nullptr, nullptr));
}

TEST(Runtime, PlansOutliveTheirBundle) {
  BundlePointer bundle = loadSgd();
  altgrad_plan *raw = nullptr;
  ASSERT_ALTGRAD(altgrad_plan_create(bundle.get(), "cpu", &raw));
  PlanPointer plan(raw);
  bundle.reset();
  Tensors actual({5000}), expected({5000});
  actual.bind(plan.get());
  ASSERT_ALTGRAD(actual.run(plan.get()));
  expected.step();
  EXPECT_TRUE(actual.equals(expected));
}

// The loader knows libraries by path, and descriptors are numbered again.
TEST(Runtime, EveryBundleHasItsOwnCode) {
  PlanPointer first = planSgd();
  BundlePointer other = loadSgd(OTHER_BUNDLE);
  EXPECT_NE(std::string(altgrad_manifest(other.get())).find("\"other\""),
            std::string::npos);
  EXPECT_EQ(std::string(altgrad_manifest(loadSgd().get())).find("\"other\""),
            std::string::npos);
}

// Subnormals survive although the caller has switched them off, and the
// caller finds its control register as it was, on every thread.
TEST(Runtime, KernelsRunWithIeeeArithmetic) {
  Tensors actual(std::vector<int64_t>(1, 4096 * 300));
  for (float &g : actual.grads[0])
    g = 1e-40f;
  actual.master[0].assign(actual.master[0].size(), 0.0f);
  PlanPointer plan = planSgd();
  ASSERT_ALTGRAD(altgrad_set_threads(plan.get(), 4));
  actual.bind(plan.get());
  unsigned before = _mm_getcsr(), flushing = 0x9fc0 | 0x6000;
  _mm_setcsr(flushing);
  altgrad_status status = actual.run(plan.get());
  unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  ASSERT_ALTGRAD(status);
  EXPECT_EQ(after & ~0x3fu, flushing & ~0x3fu);
  for (float w : actual.master[0])
    ASSERT_EQ(w, -0.125f * 1e-40f);
}

TEST(Runtime, UnknownDevicesAreRefused) {
  BundlePointer bundle = loadSgd();
  altgrad_plan *plan = nullptr;
  auto create = [&](const char *device) {
    return altgrad_plan_create(bundle.get(), device, &plan);
  };
  for (const char *bad : {"", "gpu", "cpux", "cuda:", "cuda:x", "cuda:-1",
                          "cuda:0x", "CPU", "cuda:99999"})
    EXPECT_REFUSED(create(bad), ALTGRAD_INVALID, "is none of");
  EXPECT_REFUSED(create("cpu:v9"), ALTGRAD_NOT_FOUND, "(it has: v3, v4)");
}

TEST(Runtime, AMissingDriverSaysSo) {
  if (dlopen("libcuda.so.1", RTLD_NOW))
    GTEST_SKIP() << "this machine has an NVIDIA driver";
  BundlePointer bundle = loadSgd();
  altgrad_plan *plan = nullptr;
  EXPECT_EQ(altgrad_plan_create(bundle.get(), "cuda", &plan),
            ALTGRAD_UNAVAILABLE);
  EXPECT_STREQ(altgrad_last_error(), "no NVIDIA driver found (libcuda.so.1); "
                                     "the CPU target still works");
}

TEST(Runtime, NullArgumentsAreRefused) {
  altgrad_bundle *bundle = nullptr;
  altgrad_plan *plan = nullptr;
  uint64_t bytes = 0;
  EXPECT_EQ(altgrad_load(nullptr, &bundle), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_load(SGD_BUNDLE, nullptr), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_plan_create(nullptr, "cpu", &plan), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_bind_tensors(nullptr, nullptr, 0, 0), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_bind_stream(nullptr, "x", nullptr, 0), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_bind_scalar(nullptr, "x", nullptr, 0), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_workspace(nullptr, &bytes), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_run(nullptr, nullptr, 0, 0, -1, nullptr), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_set_threads(nullptr, 1), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_set_parallel_for(nullptr, nullptr), ALTGRAD_INVALID);
  EXPECT_EQ(altgrad_partials(nullptr, nullptr, nullptr, nullptr),
            ALTGRAD_INVALID);
  EXPECT_STREQ(altgrad_manifest(nullptr), "");
  altgrad_bundle_free(nullptr);
  altgrad_plan_free(nullptr);
}

TEST(Runtime, ErrorsBelongToTheirThread) {
  altgrad_bundle *bundle = nullptr;
  ASSERT_EQ(altgrad_load("/nowhere/a.so", &bundle), ALTGRAD_NOT_FOUND);
  std::string here = altgrad_last_error(), there = "unset";
  pthread_t thread;
  pthread_create(
      &thread, nullptr,
      [](void *out) -> void * {
        *static_cast<std::string *>(out) = altgrad_last_error();
        return nullptr;
      },
      &there);
  pthread_join(thread, nullptr);
  EXPECT_EQ(there, "");
  EXPECT_EQ(here, "/nowhere/a.so: No such file or directory");
}

} // namespace
