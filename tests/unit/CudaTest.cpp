// CUDA plans against the test driver: launches, uploads and faults.
#include "CudaFixture.h"

#include <deque>

namespace {

TEST_F(Cuda, BrokenDriversSayWhatIsWrong) {
  if (inChild([] { return int(altgrad::runtime::driverIsParents()); }))
    GTEST_SKIP() << "an earlier test has opened the driver; ctest runs each "
                    "test in a process of its own";
  struct Row {
    int error;
    const char *words;
  } rows[] = {{34, "is the CUDA toolkit's stub"},
              {100, "sees no GPU"},
              {803, "cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH 803"}};
  for (const Row &row : rows) {
    fakecuda_fail("cuInit", row.error, 1, -1);
    EXPECT_NE(createWords(ALTGRAD_UNAVAILABLE, "cuda").find(row.words),
              std::string::npos)
        << printed;
    fakecuda_fail("cuInit", 0, 0, 0);
  }
  fakecuda_missing("cuStreamGetCaptureInfo");
  EXPECT_NE(createWords(ALTGRAD_UNAVAILABLE, "cuda")
                .find("the NVIDIA driver has no cuStreamGetCaptureInfo"),
            std::string::npos)
      << printed;
}

TEST_F(Cuda, ThePtxFitsTheDevice) {
  struct Row {
    int capability;
    const char *ptx;
  } rows[] = {{80, "// ptx for sm_80\n"},
              {86, "// ptx for sm_80\n"},
              {90, "// ptx for sm_90\n"},
              {100, "// ptx for sm_90\n"},
              {120, "// ptx for sm_90\n"}};
  for (const Row &row : rows) {
    fakecuda_set("capability", row.capability);
    PlanPointer plan = planSgd("cuda");
    EXPECT_EQ(strncmp(fakecuda_ptx(), row.ptx, strlen(row.ptx)), 0)
        << row.capability << fakecuda_ptx();
  }
  fakecuda_set("capability", 75);
  EXPECT_NE(createWords(ALTGRAD_UNAVAILABLE, "cuda")
                .find("forked after CUDA was started"),
            std::string::npos)
      << printed;
  altgrad_plan *plan = nullptr;
  EXPECT_REFUSED(
      altgrad_plan_create(loadSgd().get(), "cuda", &plan), ALTGRAD_UNAVAILABLE,
      "no PTX for a device of capability 7.5 (it has: sm_80, sm_90)");
}

TEST_F(Cuda, OneRunIsOneStep) {
  Tensors actual(awkwardSizes()), expected(awkwardSizes());
  PlanPointer plan = planSgd("cuda");
  actual.bind(plan.get());
  for (int i = 0; i < 3; ++i) {
    ASSERT_ALTGRAD(actual.run(plan.get()));
    fakecuda_drain();
    expected.step();
    ASSERT_TRUE(actual.equals(expected));
  }
}

TEST_F(Cuda, TheGridHoldsTheWorkOrTheDevice) {
  fakecuda_set("processors", 3);
  struct Row {
    int64_t elements;
    int occupancy;
    unsigned grid;
  } rows[] = {{4096 * 8, 6, 1},    {4096 * 8 + 1, 6, 2}, {4096 * 80, 6, 10},
              {4096 * 800, 6, 18}, {4096 * 800, 1, 12},  {4096 * 800, 32, 24}};
  for (const Row &row : rows) {
    fakecuda_set("occupancy", row.occupancy);
    fakecuda_clear_launches();
    Tensors tensors({row.elements});
    PlanPointer plan = planSgd("cuda");
    tensors.bind(plan.get());
    ASSERT_ALTGRAD(tensors.run(plan.get()));
    fakecuda_drain();
    ASSERT_EQ(cuLaunchCount(), 4u);
    EXPECT_EQ(cuLaunchAt(0).grid[0], row.grid);
    EXPECT_EQ(cuLaunchAt(0).block[0], 256u);
    EXPECT_EQ(cuLaunchAt(1).grid[0], 1u) << "once";
    EXPECT_EQ(cuLaunchAt(2).grid[0], 1u) << "one row";
    EXPECT_EQ(cuLaunchAt(3).grid[0], (row.elements + 4095) / 4096)
        << "a block for a chunk";
  }
}

std::vector<std::string> launched(Tensors &tensors, int64_t last = -1) {
  fakecuda_clear_launches();
  PlanPointer plan = planSgd("cuda", FINISHING_BUNDLE);
  tensors.bind(plan.get());
  EXPECT_EQ(tensors.run(plan.get(), 0, last), 0) << altgrad_last_error();
  fakecuda_drain();
  std::vector<std::string> names;
  for (size_t i = 0; i < cuLaunchCount(); ++i)
    names.push_back(cuLaunchAt(i).kernel + strlen("altgrad_sgd_"));
  return names;
}

// Unless there are too many rows, or the run ends before. It is launched for it
// where there is no chunk.
TEST_F(Cuda, TheLastBlockGoesOnToWhatItCan) {
  using Names = std::vector<std::string>;
  const Names apart{"norm", "total", "advance", "update"};
  Tensors some(awkwardSizes()), expected(awkwardSizes()), none({});
  EXPECT_EQ(launched(some), Names({"norm", "update"}));
  expected.step();
  EXPECT_TRUE(some.equals(expected));
  EXPECT_EQ(launched(some, 3), Names({"norm"}));
  EXPECT_EQ(launched(some, 2), Names({"norm", "total"}));
  EXPECT_EQ(launched(none), Names({"norm"}));
  EXPECT_EQ(cuLaunchAt(0).grid[0], 1u);
  Tensors most(std::vector<int64_t>(512, 1)),
      more(std::vector<int64_t>(513, 1));
  EXPECT_EQ(launched(most), Names({"norm", "update"}));
  EXPECT_EQ(launched(more), apart);
}

TEST_F(Cuda, OnlyChangedTablesAreUploaded) {
  Tensors t({5000, 7}), other({5000, 7});
  PlanPointer plan = planSgd("cuda");
  t.bind(plan.get());
  auto uploads = [&] {
    int64_t before = fakecuda_calls("cuMemcpyHtoDAsync");
    EXPECT_EQ(t.run(plan.get()), ALTGRAD_OK) << altgrad_last_error();
    fakecuda_drain();
    return fakecuda_calls("cuMemcpyHtoDAsync") - before;
  };
  auto bind = [&](const char *name, std::vector<void *> pointers) {
    EXPECT_EQ(altgrad_bind_stream(plan.get(), name, pointers.data(), 2), 0);
  };
  EXPECT_EQ(uploads(), 1) << "all of them in one copy";
  EXPECT_EQ(uploads(), 0);
  bind("grads", Tensors::pointers(t.grads));
  EXPECT_EQ(uploads(), 0) << "the same pointers";
  bind("grads", Tensors::pointers(other.grads));
  EXPECT_EQ(uploads(), 1);
  bind("master", Tensors::pointers(other.master));
  EXPECT_EQ(uploads(), 1);
}

// The host may be several steps ahead of the device.
TEST_F(Cuda, UploadsInFlightKeepTheirPointers) {
  Tensors actual({5000}), expected({5000});
  PlanPointer plan = planSgd("cuda");
  actual.bind(plan.get());
  std::vector<std::vector<float>> gradients;
  for (int i = 0; i < 40; ++i)
    gradients.emplace_back(5000, float(i + 1) / 8);
  for (std::vector<float> &gradient : gradients) {
    void *pointer = gradient.data();
    ASSERT_ALTGRAD(altgrad_bind_stream(plan.get(), "grads", &pointer, 1));
    ASSERT_ALTGRAD(actual.run(plan.get()));
    expected.grads[0] = gradient;
    expected.step();
    if (&gradient == &gradients[31]) {
      EXPECT_EQ(fakecuda_calls("cuEventSynchronize"), 0)
          << "32 ahead, no waiting";
    }
  }
  EXPECT_GT(fakecuda_calls("cuEventSynchronize"), 0);
  fakecuda_drain();
  EXPECT_TRUE(actual.equals(expected));
}

TEST_F(Cuda, RunsFollowEachOtherOnAnyStream) {
  Tensors t({5000});
  PlanPointer plan = planSgd("cuda:0");
  t.bind(plan.get());
  cu("cuCtxPushCurrent", cuPrimaryContext());
  for (void *stream : {cuNewStream(), cuNewStream()}) {
    ASSERT_ALTGRAD(altgrad_run(plan.get(), t.workspace.get(), t.workspaceBytes,
                               0, -1, stream));
    EXPECT_EQ(cuLaunchAt(cuLaunchCount() - 1).stream, stream);
  }
  EXPECT_EQ(fakecuda_calls("cuStreamWaitEvent"), 1)
      << "the second for the first";
  fakecuda_drain();
}

TEST_F(Cuda, ZeroRowsLaunchOnlyWhatRunsOnce) {
  Tensors none({});
  PlanPointer plan = planSgd("cuda");
  none.bind(plan.get());
  ASSERT_ALTGRAD(none.run(plan.get()));
  fakecuda_drain();
  ASSERT_EQ(cuLaunchCount(), 1u);
  EXPECT_STREQ(cuLaunchAt(0).kernel, "altgrad_sgd_total");
}

TEST_F(Cuda, ContextsAreFoundAndLeftAsTheyWere) {
  PlanPointer first = planSgd("cuda");
  EXPECT_EQ(fakecuda_retained(0), 1) << "no current one: device 0";
  PlanPointer second = planSgd("cuda:1");
  EXPECT_EQ(fakecuda_retained(1), 1);
  void *current = cuPrimaryContext(1), *found = nullptr;
  cu("cuCtxPushCurrent", current);
  PlanPointer third = planSgd("cuda"), fourth = planSgd("cuda:1");
  EXPECT_EQ(fakecuda_retained(1), 2) << "the current one is of device 1";
  Tensors t({10});
  t.bind(first.get());
  ASSERT_ALTGRAD(t.run(first.get()));
  fakecuda_drain();
  EXPECT_EQ(cu("cuCtxGetCurrent", &found), 0);
  EXPECT_EQ(found, current);
  EXPECT_EQ(cu("cuCtxPopCurrent", &found), 0);
  EXPECT_EQ(cu("cuCtxPopCurrent", &found), 201) << "one was there";
  altgrad_plan *plan = nullptr;
  EXPECT_REFUSED(altgrad_plan_create(loadSgd().get(), "cuda:7", &plan),
                 ALTGRAD_UNAVAILABLE, "cuda:7 of 2 CUDA devices");
}

TEST_F(Cuda, MemoryIsUsedAgainAndNothingWaits) {
  int64_t alive = 0;
  BundlePointer bundle = loadSgd();
  for (int round = 0; round < 9; ++round) {
    PlanPointer plan = planOf(bundle.get(), "cuda:1");
    for (int64_t size : {10, 1000000, 20}) { // the tables grow and shrink
      Tensors t({size, size});
      t.bind(plan.get());
      ASSERT_ALTGRAD(t.run(plan.get()));
      fakecuda_drain();
    }
    plan.reset();
    alive = round == 1 ? fakecuda_get("alive") : alive;
  }
  EXPECT_EQ(fakecuda_get("alive"), alive);
  EXPECT_EQ(fakecuda_calls("cuModuleLoadDataEx"), 1);
  for (const char *waits :
       {"cuMemFree", "cuMemFreeHost", "cuModuleUnload", "cuEventSynchronize"})
    EXPECT_EQ(fakecuda_calls(waits), 0) << waits;
  bundle.reset();
  altgrad::runtime::Gpu::forgetAll();
  EXPECT_EQ(fakecuda_get("alive"), 0);
  EXPECT_EQ(fakecuda_retained(1), 0);
  void *current = nullptr;
  EXPECT_EQ(cu("cuCtxGetCurrent", &current), 0);
  EXPECT_EQ(current, nullptr);
}

TEST_F(Cuda, LoadingErrorsHaveTheDriversWords) {
  struct Row {
    int error;
    const char *words;
  } rows[] = {{222, "the driver is too old for this PTX"},
              {209, "no code for this GPU"},
              {218, "the driver refuses the PTX"},
              {221, "has no compiler for PTX"},
              {2, "CUDA_ERROR_OUT_OF_MEMORY 2 (out of memory)"}};
  fakecuda_jit_log("ptxas line 7: error");
  BundlePointer bundle = loadSgd();
  for (const Row &row : rows) {
    fakecuda_fail("cuModuleLoadDataEx", row.error, 1, -1);
    altgrad_plan *plan = nullptr;
    EXPECT_REFUSED(altgrad_plan_create(bundle.get(), "cuda", &plan),
                   ALTGRAD_CUDA, row.words);
    EXPECT_NE(strstr(altgrad_last_error(), "sm_90, driver for CUDA 12.8"),
              nullptr);
    EXPECT_NE(strstr(altgrad_last_error(), "ptxas line 7"), nullptr);
  }
  EXPECT_EQ(fakecuda_get("alive"), 0);
}

TEST_F(Cuda, AMissingKernelIsABrokenBundle) {
  fakecuda_fail("cuModuleGetFunction", 500, 1, -1);
  altgrad_plan *plan = nullptr;
  EXPECT_REFUSED(altgrad_plan_create(loadSgd().get(), "cuda", &plan),
                 ALTGRAD_BROKEN, "kernel altgrad_sgd_norm");
  EXPECT_EQ(fakecuda_get("alive"), 0);
}

TEST_F(Cuda, OutOfMemoryCanBeTriedAgain) {
  for (const char *call : {"cuMemAlloc", "cuMemHostAlloc", "cuEventCreate"}) {
    start();
    PlanPointer plan = planSgd("cuda");
    altgrad_tensor tensor = declared(5000);
    int64_t before = fakecuda_get("alive");
    fakecuda_fail(call, 2, 1, -1);
    EXPECT_REFUSED(altgrad_bind_tensors(plan.get(), &tensor, 1, 1),
                   ALTGRAD_CUDA, "memory for the tables of a plan");
    EXPECT_REFUSED(altgrad_run(plan.get(), nullptr, 0, 0, -1, nullptr),
                   ALTGRAD_INVALID, "no tensors bound");
    EXPECT_EQ(fakecuda_get("alive"), before) << call;
    fakecuda_fail(nullptr, 0, 0, 0);
    Tensors actual({5000}), expected({5000});
    actual.bind(plan.get());
    ASSERT_ALTGRAD(actual.run(plan.get()));
    fakecuda_drain();
    expected.step();
    EXPECT_TRUE(actual.equals(expected)) << call;
  }
}

// An allocator that has given out all it has, the first time that it is asked.
struct CallersMemory {
  int refused = 0, given = 0, back = 0;
  static void *allocate(int32_t device, uint64_t bytes, void *stream, void *context) {
    auto &self = *static_cast<CallersMemory *>(context);
    uint64_t memory = 0;
    EXPECT_EQ(device, 1);
    EXPECT_NE(stream, nullptr);
    if (!self.refused++)
      return nullptr;
    EXPECT_EQ(cu("cuMemAlloc", &memory, size_t(bytes)), 0);
    ++self.given;
    return (void *)memory;
  }
  // Whoever still reads it finds other bytes: nothing orders them behind a kernel.
  static void release(void *memory, void *context) {
    ++static_cast<CallersMemory *>(context)->back;
    EXPECT_EQ(cu("cuMemsetD8Async", uint64_t(memory), (unsigned char)0xee, size_t(16384), cuNewStream()), 0);
  }
};

TEST_F(Cuda, TablesLieInTheCallersMemoryAndGoBackWhenNobodyReadsThem) {
  CallersMemory memory;
  EXPECT_REFUSED(altgrad_set_cuda_memory(memory.allocate, nullptr, nullptr), ALTGRAD_INVALID, "release is NULL");
  ASSERT_ALTGRAD(altgrad_set_cuda_memory(memory.allocate, memory.release, &memory));
  BundlePointer bundle = loadSgd();
  std::deque<Tensors> all;
  std::vector<PlanPointer> plans;
  for (int i = 0; i < 40; ++i) {
    Tensors &actual = all.emplace_back(std::vector<int64_t>{5000});
    plans.push_back(planOf(bundle.get(), "cuda:1"));
    if (altgrad_tensor tensor = declared(5000); !i)
      EXPECT_REFUSED(altgrad_bind_tensors(plans[0].get(), &tensor, 1, 1), ALTGRAD_CUDA, "the tables of a plan: CUDA_");
    actual.bind(plans.back().get());
    ASSERT_ALTGRAD(actual.run(plans.back().get()));
  }
  EXPECT_EQ(memory.given, 40);
  EXPECT_EQ(memory.back, 0);
  plans.clear(); // all but a few of the blocks go back
  EXPECT_EQ(memory.back, 24);
  fakecuda_drain();
  EXPECT_STREQ(fakecuda_fault(), "");
  Tensors expected({5000});
  expected.step();
  for (const Tensors &actual : all)
    EXPECT_TRUE(actual.equals(expected));
  ASSERT_ALTGRAD(altgrad_set_cuda_memory(nullptr, nullptr, nullptr));
  bundle.reset();
  altgrad::runtime::Gpu::forgetAll();
  EXPECT_EQ(memory.back, 40);
}

TEST_F(Cuda, AFailedUploadIsRepeated) {
  Tensors actual({5000}), expected({5000});
  PlanPointer plan = planSgd("cuda");
  actual.bind(plan.get());
  fakecuda_fail("cuMemcpyHtoDAsync", 1, 1, -1);
  EXPECT_REFUSED(actual.run(plan.get()), ALTGRAD_CUDA, "uploading the tables");
  EXPECT_EQ(cuLaunchCount(), 0u);
  fakecuda_fail(nullptr, 0, 0, 0);
  ASSERT_ALTGRAD(actual.run(plan.get()));
  fakecuda_drain();
  expected.step();
  EXPECT_TRUE(actual.equals(expected));
}

TEST_F(Cuda, LaunchErrorsNameTheKernel) {
  Tensors t({5000});
  PlanPointer plan = planSgd("cuda");
  t.bind(plan.get());
  fakecuda_fail("cuLaunchKernel", 701, 1, -1);
  EXPECT_REFUSED(t.run(plan.get()), ALTGRAD_CUDA,
                 "altgrad_sgd_norm: CUDA_ERROR");
  EXPECT_EQ(strstr(altgrad_last_error(), "context is lost"), nullptr);
  for (int sticky : {700, 702, 714, 719}) {
    fakecuda_fail("cuLaunchKernel", sticky, 1, -1);
    EXPECT_REFUSED(t.run(plan.get()), ALTGRAD_CUDA, "the CUDA context is lost");
  }
  fakecuda_drain();
}

TEST_F(Cuda, AChildOfForkIsRefused) {
  Tensors t({5000});
  PlanPointer plan = planSgd("cuda");
  t.bind(plan.get());
  EXPECT_EQ(inChild([&] {
              fakecuda_clear_calls();
              altgrad_status status = t.run(plan.get());
              fprintf(stderr, "%s", altgrad_last_error());
              altgrad_plan_free(plan.release());
              return fakecuda_calls(nullptr) ? 77 : status;
            }),
            ALTGRAD_UNAVAILABLE);
  EXPECT_NE(printed.find("belongs to the process that was forked"),
            std::string::npos)
      << printed;
}

} // namespace
