// CUDA plans against a fake driver: launches, uploads, capture and faults.
#include "Folder.h"
#include "Sgd.h"
#include "altgrad/bundle.h"
#include "cuda/Driver.h"
#include "fake/FakeCuda.h"

#include <cstring>
#include <dlfcn.h>

namespace {

FakeCuda &fake() {
  static FakeCuda *state = [] {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    auto get = library ? GetFakeCuda(dlsym(library, "fakeCuda")) : nullptr;
    if (!get) {
      fprintf(stderr, "run by ctest, or with LD_LIBRARY_PATH at the fake\n");
      exit(1);
    }
    return get();
  }();
  return *state;
}

// The hand-written bundle's host code stands in for what the PTX would do.
void execute(const FakeLaunch &launch) {
  static void *code = dlopen(SGD_BUNDLE, RTLD_NOW | RTLD_LOCAL);
  auto kernel =
      (altgrad_host_kernel)dlsym(code, (launch.kernel + "_v3").c_str());
  ASSERT_TRUE(kernel) << launch.kernel;
  altgrad_args args;
  ASSERT_EQ(launch.arguments.size() * 8, sizeof args + 16);
  memcpy(&args, launch.arguments.data(), sizeof args);
  const uint64_t *range = launch.arguments.data() + sizeof args / 8;
  kernel(&args, int64_t(range[0]), int64_t(range[1]));
}

class Cuda : public Folder {
protected:
  void SetUp() override {
    Folder::SetUp();
    fake() = FakeCuda();
    fake().onLaunch = execute;
  }
  // The words of a failed plan_create in a process of its own: a driver is
  // opened once.
  std::string createWords(altgrad_status expected, const char *device) {
    EXPECT_EQ(inChild([&] {
                altgrad_plan *plan = nullptr;
                altgrad_status status =
                    altgrad_plan_create(loadSgd().get(), device, &plan);
                fprintf(stderr, "%s", status ? altgrad_last_error() : "");
                return status;
              }),
              expected);
    return printed;
  }
};

TEST_F(Cuda, BrokenDriversSayWhatIsWrong) {
  if (inChild([] { return int(altgrad::runtime::driverIsParents()); }))
    GTEST_SKIP() << "an earlier test has opened the driver; ctest runs each "
                    "test in a process of its own";
  struct Row {
    const char *variable, *value, *words;
  } rows[] = {{"FAKE_CUDA_INIT", "34", "is the CUDA toolkit's stub"},
              {"FAKE_CUDA_INIT", "100", "sees no GPU"},
              {"FAKE_CUDA_INIT", "803", "cuInit: CUDA_ERROR_FAKE 803"},
              {"FAKE_CUDA_MISSING", "cuStreamIsCapturing",
               "the NVIDIA driver has no cuStreamIsCapturing"}};
  for (const Row &row : rows) {
    setenv(row.variable, row.value, 1);
    EXPECT_NE(createWords(ALTGRAD_UNAVAILABLE, "cuda").find(row.words),
              std::string::npos)
        << printed;
    unsetenv(row.variable);
  }
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
    fake().capability = row.capability;
    PlanPointer plan = planSgd("cuda");
    EXPECT_EQ(fake().ptx, row.ptx) << row.capability;
  }
  fake().capability = 75;
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
    fake().drain();
    expected.step();
    ASSERT_TRUE(actual.equals(expected));
  }
}

TEST_F(Cuda, TheGridHoldsTheWorkOrTheDevice) {
  fake().processors = 3;
  struct Row {
    int64_t elements;
    int occupancy;
    unsigned grid;
  } rows[] = {{4096 * 8, 6, 1},    {4096 * 8 + 1, 6, 2}, {4096 * 80, 6, 10},
              {4096 * 800, 6, 18}, {4096 * 800, 1, 12},  {4096 * 800, 32, 24}};
  for (const Row &row : rows) {
    fake().occupancy = row.occupancy;
    fake().launches.clear();
    Tensors tensors({row.elements});
    PlanPointer plan = planSgd("cuda");
    tensors.bind(plan.get());
    ASSERT_ALTGRAD(tensors.run(plan.get()));
    fake().drain();
    ASSERT_EQ(fake().launches.size(), 4u);
    EXPECT_EQ(fake().launches[0].grid, row.grid);
    EXPECT_EQ(fake().launches[0].block, 256u);
    EXPECT_EQ(fake().launches[1].grid, 1u) << "once";
    EXPECT_EQ(fake().launches[2].grid, 1u) << "one row";
    EXPECT_EQ(fake().launches[3].grid, (row.elements + 4095) / 4096)
        << "a block for a chunk";
  }
}

std::vector<std::string> launched(Tensors &tensors, int64_t last = -1) {
  fake().launches.clear();
  PlanPointer plan = planSgd("cuda", FINISHING_BUNDLE);
  tensors.bind(plan.get());
  EXPECT_EQ(tensors.run(plan.get(), 0, last), 0) << altgrad_last_error();
  fake().drain();
  std::vector<std::string> names;
  for (const FakeLaunch &launch : fake().launches)
    names.push_back(launch.kernel.substr(strlen("altgrad_sgd_")));
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
  EXPECT_EQ(fake().launches[0].grid, 1u);
  Tensors most(std::vector<int64_t>(4096, 1)),
      more(std::vector<int64_t>(4097, 1));
  EXPECT_EQ(launched(most), Names({"norm", "update"}));
  EXPECT_EQ(launched(more), apart);
}

TEST_F(Cuda, OnlyChangedTablesAreUploaded) {
  Tensors t({5000, 7}), other({5000, 7});
  PlanPointer plan = planSgd("cuda");
  t.bind(plan.get());
  int &copies = fake().calls["cuMemcpyHtoDAsync"];
  auto uploads = [&] {
    int before = copies;
    EXPECT_EQ(t.run(plan.get()), ALTGRAD_OK) << altgrad_last_error();
    fake().drain();
    return copies - before;
  };
  auto bind = [&](const char *name, std::vector<void *> pointers) {
    EXPECT_EQ(altgrad_bind_stream(plan.get(), name, pointers.data(), 2), 0);
  };
  EXPECT_EQ(uploads(), 7);
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
  for (int i = 0; i < 9; ++i)
    gradients.emplace_back(5000, float(i + 1) / 8);
  for (std::vector<float> &gradient : gradients) {
    void *pointer = gradient.data();
    ASSERT_ALTGRAD(altgrad_bind_stream(plan.get(), "grads", &pointer, 1));
    ASSERT_ALTGRAD(actual.run(plan.get()));
    expected.grads[0] = gradient;
    expected.step();
    if (&gradient == &gradients[3]) {
      EXPECT_EQ(fake().calls["cuEventSynchronize"], 0) << "4 ahead, no waiting";
    }
  }
  EXPECT_GT(fake().calls["cuEventSynchronize"], 0);
  fake().drain();
  EXPECT_TRUE(actual.equals(expected));
}

TEST_F(Cuda, NothingIsUploadedUnderCapture) {
  Tensors t({5000}), other({5000});
  PlanPointer plan = planSgd("cuda");
  t.bind(plan.get());
  fake().capturing = true;
  EXPECT_REFUSED(t.run(plan.get()), ALTGRAD_INVALID, "run once before");
  EXPECT_TRUE(fake().launches.empty());
  fake().capturing = false;
  ASSERT_ALTGRAD(t.run(plan.get()));
  fake().capturing = true;
  fake().calls.clear();
  ASSERT_ALTGRAD(t.run(plan.get()));
  EXPECT_EQ(fake().launches.size(), 8u);
  for (const char *outside : {"cuMemcpyHtoDAsync", "cuEventRecord",
                              "cuStreamWaitEvent", "cuEventSynchronize"})
    EXPECT_EQ(fake().calls[outside], 0) << outside;
  fake().drain();
}

TEST_F(Cuda, RunsFollowEachOtherOnAnyStream) {
  Tensors t({5000});
  PlanPointer plan = planSgd("cuda");
  t.bind(plan.get());
  for (void *stream : {(void *)16, (void *)32}) {
    ASSERT_ALTGRAD(altgrad_run(plan.get(), t.workspace.get(), t.workspaceBytes,
                               0, -1, stream));
    EXPECT_EQ(fake().launches.back().stream, stream);
  }
  EXPECT_EQ(fake().calls["cuStreamWaitEvent"], 1) << "the second for the first";
  fake().drain();
}

TEST_F(Cuda, ZeroRowsLaunchOnlyWhatRunsOnce) {
  Tensors none({});
  PlanPointer plan = planSgd("cuda");
  none.bind(plan.get());
  ASSERT_ALTGRAD(none.run(plan.get()));
  fake().drain();
  ASSERT_EQ(fake().launches.size(), 1u);
  EXPECT_EQ(fake().launches[0].kernel, "altgrad_sgd_total");
}

TEST_F(Cuda, ContextsAreFoundAndLeftAsTheyWere) {
  PlanPointer first = planSgd("cuda");
  EXPECT_EQ(fake().retained[0], 1) << "no current one: device 0";
  PlanPointer second = planSgd("cuda:1");
  EXPECT_EQ(fake().retained[1], 1);
  fake().contexts = {2};
  PlanPointer third = planSgd("cuda"), fourth = planSgd("cuda:1");
  EXPECT_EQ(fake().retained[1], 1) << "the current one is of device 1";
  Tensors t({10});
  t.bind(first.get());
  ASSERT_ALTGRAD(t.run(first.get()));
  fake().drain();
  EXPECT_EQ(fake().contexts, std::vector<uint64_t>{2});
  altgrad_plan *plan = nullptr;
  EXPECT_REFUSED(altgrad_plan_create(loadSgd().get(), "cuda:7", &plan),
                 ALTGRAD_UNAVAILABLE, "cuda:7 of 2 CUDA devices");
}

TEST_F(Cuda, EverythingIsGivenBack) {
  for (int round = 0; round < 3; ++round) {
    PlanPointer plan = planSgd("cuda:1");
    for (int64_t size : {10, 1000000, 20}) { // the tables grow and shrink
      Tensors t({size, size});
      t.bind(plan.get());
      ASSERT_ALTGRAD(t.run(plan.get()));
      fake().drain();
    }
  }
  EXPECT_EQ(fake().alive, 0);
  EXPECT_EQ(fake().retained[1], 0);
  EXPECT_TRUE(fake().contexts.empty());
}

TEST_F(Cuda, LoadingErrorsHaveTheDriversWords) {
  struct Row {
    int error;
    const char *words;
  } rows[] = {{222, "the driver is too old for this PTX"},
              {209, "no code for this GPU"},
              {218, "the driver refuses the PTX"},
              {221, "has no compiler for PTX"},
              {2, "CUDA_ERROR_OUT_OF_MEMORY 2 (as the test wants)"}};
  fake().jitLog = "ptxas line 7: error";
  BundlePointer bundle = loadSgd();
  for (const Row &row : rows) {
    fake().failures["cuModuleLoadDataEx"] = row.error;
    altgrad_plan *plan = nullptr;
    EXPECT_REFUSED(altgrad_plan_create(bundle.get(), "cuda", &plan),
                   ALTGRAD_CUDA, row.words);
    EXPECT_NE(strstr(altgrad_last_error(), "sm_90, driver for CUDA 12.4"),
              nullptr);
    EXPECT_NE(strstr(altgrad_last_error(), "ptxas line 7"), nullptr);
  }
  EXPECT_EQ(fake().alive, 0);
  EXPECT_EQ(fake().retained[0], 0);
}

TEST_F(Cuda, AMissingKernelIsABrokenBundle) {
  fake().failures["cuModuleGetFunction"] = 500;
  altgrad_plan *plan = nullptr;
  EXPECT_REFUSED(altgrad_plan_create(loadSgd().get(), "cuda", &plan),
                 ALTGRAD_BROKEN, "kernel altgrad_sgd_norm");
  EXPECT_EQ(fake().alive, 0);
}

TEST_F(Cuda, OutOfMemoryCanBeTriedAgain) {
  for (const char *call : {"cuMemAlloc", "cuMemHostAlloc", "cuEventCreate"}) {
    fake() = FakeCuda();
    fake().onLaunch = execute;
    PlanPointer plan = planSgd("cuda");
    altgrad_tensor tensor = declared(5000);
    int before = fake().alive;
    fake().failures[call] = 2;
    EXPECT_REFUSED(altgrad_bind_tensors(plan.get(), &tensor, 1, 1),
                   ALTGRAD_CUDA, "memory for the tables of a plan");
    EXPECT_REFUSED(altgrad_run(plan.get(), nullptr, 0, 0, -1, nullptr),
                   ALTGRAD_INVALID, "no tensors bound");
    EXPECT_EQ(fake().alive, before) << call;
    fake().failures.clear();
    Tensors actual({5000}), expected({5000});
    actual.bind(plan.get());
    ASSERT_ALTGRAD(actual.run(plan.get()));
    fake().drain();
    expected.step();
    EXPECT_TRUE(actual.equals(expected)) << call;
  }
}

TEST_F(Cuda, AFailedUploadIsRepeated) {
  Tensors actual({5000}), expected({5000});
  PlanPointer plan = planSgd("cuda");
  actual.bind(plan.get());
  fake().failures["cuMemcpyHtoDAsync"] = 1;
  EXPECT_REFUSED(actual.run(plan.get()), ALTGRAD_CUDA, "uploading the tables");
  EXPECT_TRUE(fake().launches.empty());
  fake().failures.clear();
  ASSERT_ALTGRAD(actual.run(plan.get()));
  fake().drain();
  expected.step();
  EXPECT_TRUE(actual.equals(expected));
}

TEST_F(Cuda, LaunchErrorsNameTheKernel) {
  Tensors t({5000});
  PlanPointer plan = planSgd("cuda");
  t.bind(plan.get());
  fake().failures["cuLaunchKernel"] = 701;
  EXPECT_REFUSED(t.run(plan.get()), ALTGRAD_CUDA,
                 "altgrad_sgd_norm: CUDA_ERROR");
  EXPECT_EQ(strstr(altgrad_last_error(), "context is lost"), nullptr);
  for (int sticky : {700, 702, 714, 719}) {
    fake().failures["cuLaunchKernel"] = sticky;
    EXPECT_REFUSED(t.run(plan.get()), ALTGRAD_CUDA, "the CUDA context is lost");
  }
  fake().drain();
}

TEST_F(Cuda, AChildOfForkIsRefused) {
  Tensors t({5000});
  PlanPointer plan = planSgd("cuda");
  t.bind(plan.get());
  EXPECT_EQ(inChild([&] {
              fake().calls.clear();
              altgrad_status status = t.run(plan.get());
              fprintf(stderr, "%s", altgrad_last_error());
              altgrad_plan_free(plan.release());
              return fake().calls.empty() ? status : 77;
            }),
            ALTGRAD_UNAVAILABLE);
  EXPECT_NE(printed.find("belongs to the process that was forked"),
            std::string::npos)
      << printed;
}

} // namespace
