// What the test driver promises: streams, events, faults, launches, devices.
#include "PtxOfTests.h"

#include <cstdint>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

class FakeCuda : public OneContext {};

TEST_F(FakeCuda, FunctionsAreFoundByNameAndVersion) {
  void *function = nullptr;
  int why = 0;
  auto find = [&](const char *name, int version) {
    return cuGetProcAddress_v2(name, &function, version, 0, &why);
  };
  EXPECT_EQ(find("cuMemAlloc", 11030), 0);
  EXPECT_EQ(find("cuNothing", 11030), 500);
  EXPECT_EQ(why, 1) << "not found";
  EXPECT_EQ(find("cuLaunchKernelEx", 11030), 500) << "it came with 11.6";
  EXPECT_EQ(why, 2) << "the version is not sufficient";
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(find("cuStreamGetCaptureInfo", 11030), 0);
  EXPECT_EQ(find("cuStreamGetCaptureInfo", 12030), 500) << "has 7 parameters";
  fakecuda_missing("cuMemAlloc");
  EXPECT_EQ(find("cuMemAlloc", 11030), 500);
#define ALTGRAD_DRIVER(name, ...)                                              \
  EXPECT_TRUE(find(#name, 11030) == 0 || !strcmp(#name, "cuMemAlloc")) << #name;
#include "cuda/DriverTable.def"
#undef ALTGRAD_DRIVER
}

TEST_F(FakeCuda, WorkWaitsUntilSomebodyDoes) {
  void *stream = cuNewStream(), *event = newEvent();
  increment(&number, stream);
  ASSERT_EQ(cu("cuEventRecord", event, stream), 0);
  increment(&number, stream);
  EXPECT_EQ(number, 0u);
  EXPECT_EQ(cu("cuEventQuery", event), 600);
  EXPECT_EQ(fakecuda_get("pending"), 3);
  EXPECT_EQ(cu("cuEventSynchronize", event), 0);
  EXPECT_EQ(number, 1u) << "nothing beyond the event";
  EXPECT_EQ(cu("cuEventQuery", event), 0);
  EXPECT_EQ(cu("cuStreamQuery", stream), 600);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 0);
  EXPECT_EQ(number, 2u);
  EXPECT_EQ(fakecuda_get("waits"), 2);
  EXPECT_EQ(fakecuda_get("launches"), 2);
  EXPECT_GT(fakecuda_get("instructions"), 8);
  EXPECT_EQ(fakecuda_calls("cuLaunchKernel"), 2);
}

TEST_F(FakeCuda, EverythingThatWaitsWaits) {
  uint64_t memory = 0;
  ASSERT_EQ(cu("cuMemAlloc", &memory, size_t(64)), 0);
  void *stream = cuNewStream();
  uint32_t wanted = 0, copied = 0;
  std::vector<std::function<int()>> calls{
      [&] { return cu("cuCtxSynchronize"); },
      [&] { return cu("cuMemFree", memory); },
      [&] {
        return cu("cuMemcpyDtoH", (void *)&copied, uint64_t(&number),
                  size_t(4));
      }};
  for (auto &wait : calls) {
    increment(&number, wanted == 2 ? nullptr : stream);
    EXPECT_EQ(wait(), 0);
    EXPECT_EQ(number, ++wanted);
  }
  EXPECT_EQ(copied, 3u) << "of the legacy stream, whose copy comes after";
}

TEST_F(FakeCuda, EagerWorkIsDoneAtOnce) {
  fakecuda_set("eager", 1);
  increment(&number, cuNewStream());
  EXPECT_EQ(number, 1u);
}

// Only an event orders two streams.
TEST_F(FakeCuda, AMissingWaitGivesWrongBytes) {
  for (bool waits : {false, true}) {
    number = other = 0;
    void *first = cuNewStream(), *second = cuNewStream(), *event = newEvent();
    increment(&number, first);
    ASSERT_EQ(cu("cuEventRecord", event, first), 0);
    if (waits)
      ASSERT_EQ(cu("cuStreamWaitEvent", second, event, 0u), 0);
    add(&other, &number, second);
    fakecuda_drain();
    EXPECT_EQ(other, waits ? 1u : 0u);
  }
}

TEST_F(FakeCuda, SeedsGiveBothOrdersOfUnorderedStreamsAndOneOfOrdered) {
  for (bool waits : {false, true}) {
    std::set<uint32_t> results;
    for (int seed = 1; seed < 40; ++seed) {
      fakecuda_set("seed", seed);
      number = other = 0;
      void *first = cuNewStream(), *second = cuNewStream(), *event = newEvent();
      increment(&number, first);
      cu("cuEventRecord", event, first);
      if (waits)
        cu("cuStreamWaitEvent", second, event, 0u);
      add(&other, &number, second);
      cu("cuStreamSynchronize", second);
      fakecuda_drain();
      results.insert(other);
    }
    EXPECT_EQ(results.size(), waits ? 1u : 2u);
  }
}

// What is only right while the device is slow.
TEST_F(FakeCuda, WithASeedTheDeviceMayBeQuick) {
  std::set<uint32_t> results;
  void *pinned = nullptr, *stream = cuNewStream();
  ASSERT_EQ(cu("cuMemHostAlloc", &pinned, size_t(4), 0u), 0);
  for (int seed = 0; seed < 40; ++seed) {
    fakecuda_set("seed", seed);
    *(uint32_t *)pinned = number = 0;
    upload(uint64_t(&number), pinned, 4, stream);
    newEvent(); // any call
    *(uint32_t *)pinned = 7;
    fakecuda_drain();
    results.insert(number);
    EXPECT_TRUE(seed % 2 || number == 7) << "with an even one it never is";
  }
  EXPECT_EQ(results.size(), 2u);
}

TEST_F(FakeCuda, AWaitIsForTheRecordBeforeIt) {
  void *first = cuNewStream(), *second = cuNewStream(), *event = newEvent();
  EXPECT_EQ(cu("cuStreamWaitEvent", second, event, 0u), 0) << "never recorded";
  EXPECT_EQ(cu("cuEventSynchronize", event), 0);
  cu("cuEventRecord", event, first);
  cu("cuStreamWaitEvent", second, event, 0u);
  increment(&number, first);
  cu("cuEventRecord", event, first); // does not move the wait
  cu("cuStreamSynchronize", second);
  EXPECT_EQ(number, 0u);
  cu("cuEventDestroy", event);
  cu("cuStreamDestroy", first);
  fakecuda_drain();
  EXPECT_EQ(number, 1u) << "what was queued is done";
  EXPECT_EQ(cu("cuStreamSynchronize", first), 400);
  EXPECT_EQ(cu("cuEventSynchronize", event), 400);
}

TEST_F(FakeCuda, TheLegacyStreamIsOrderedWithBlockingOnes) {
  void *blocking = cuNewStream(0), *free = cuNewStream(1);
  increment(&number, nullptr);
  add(&other, &number, blocking);
  cu("cuStreamSynchronize", blocking);
  EXPECT_EQ(other, 1u);
  increment(&number, blocking);
  add(&other, &number, nullptr);
  cu("cuStreamSynchronize", nullptr);
  EXPECT_EQ(other, 3u);
  increment(&number, free);
  cu("cuStreamSynchronize", nullptr);
  EXPECT_EQ(number, 2u) << "a non-blocking stream is not";
}

TEST_F(FakeCuda, AFaultStays) {
  uint64_t memory = 0;
  void *stream = cuNewStream(), *second = cuNewStream(), *event = newEvent();
  ASSERT_EQ(cu("cuMemAlloc", &memory, size_t(4)), 0);
  increment((uint32_t *)4096, stream);
  increment(&number, stream);
  EXPECT_EQ(cu("cuEventRecord", event, stream), 0) << "nobody knows yet";
  EXPECT_EQ(cu("cuEventSynchronize", event), 700);
  EXPECT_EQ(number, 0u) << "nothing is done after a fault";
  EXPECT_EQ(launch("increment", {uint64_t(&number)}, second), 700);
  EXPECT_EQ(cu("cuMemFree", memory), 700);
  EXPECT_EQ(cu("cuMemAlloc", &memory, size_t(4)), 700);
  EXPECT_EQ(cu("cuModuleUnload", module), 700);
  EXPECT_EQ(cu("cuEventQuery", event), 700);
  void *current = nullptr, *context = nullptr;
  EXPECT_EQ(cu("cuCtxGetCurrent", &current), 0);
  EXPECT_EQ(cu("cuDevicePrimaryCtxRetain", &context, 1), 0);
  EXPECT_EQ(cu("cuCtxPushCurrent", context), 0);
  EXPECT_EQ(cu("cuMemAlloc", &memory, size_t(4)), 0) << "another device lives";
}

TEST_F(FakeCuda, CallsFailOnDemand) {
  uint64_t memory = 0;
  auto allocate = [&] { return cu("cuMemAlloc", &memory, size_t(4)); };
  fakecuda_fail("cuMemAlloc", 2, 2, 2);
  for (int wanted : {0, 2, 2, 0})
    EXPECT_EQ(allocate(), wanted);
  fakecuda_fail("cuMemAlloc", 999, 1, -1);
  EXPECT_EQ(allocate(), 999);
  EXPECT_EQ(allocate(), 999);
  fakecuda_fail("cuMemAlloc", 0, 0, 0);
  EXPECT_EQ(allocate(), 0);
  EXPECT_EQ(fakecuda_calls("cuMemAlloc"), 7);
  setenv("FAKE_CUDA_FAIL", "cuMemAlloc:2:2,cuMemHostAlloc:7", 1);
  again();
  unsetenv("FAKE_CUDA_FAIL");
  for (int wanted : {0, 2, 0})
    EXPECT_EQ(allocate(), wanted);
  void *host = nullptr;
  EXPECT_EQ(cu("cuMemHostAlloc", &host, size_t(4), 0u), 7);
}

TEST_F(FakeCuda, CountsAreForgottenAndObjectsStay) {
  void *stream = cuNewStream();
  fakecuda_fail("cuStreamQuery", 1, 1, -1);
  fakecuda_set("capability", 80);
  increment(&number, stream);
  fakecuda_forget();
  EXPECT_EQ(fakecuda_calls(nullptr), 0);
  EXPECT_EQ(cuLaunchCount(), 0u);
  EXPECT_EQ(fakecuda_get("capability"), 90);
  EXPECT_EQ(cu("cuStreamQuery", stream), 600);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 0);
  EXPECT_EQ(number, 1u);
}

TEST_F(FakeCuda, ModulesAreForDevicesAndDrivers) {
  void *out = nullptr;
  auto load = [&](const std::string &text) {
    return cu("cuModuleLoadDataEx", &out, (const void *)text.c_str(), 0u,
              (int *)nullptr, (void **)nullptr);
  };
  EXPECT_EQ(load(ptxOfTests("7.8", "sm_90")), 0);
  fakecuda_set("capability", 86);
  EXPECT_EQ(load(ptxOfTests("7.8", "sm_90")), 209);
  EXPECT_EQ(load(ptxOfTests("7.8", "sm_80")), 0);
  fakecuda_set("driver", 11070);
  EXPECT_EQ(load(ptxOfTests("7.8", "sm_80")), 222);
  EXPECT_EQ(load(ptxOfTests("7.7", "sm_80")), 0);
  EXPECT_EQ(load("no PTX"), 218);
  char log[100] = "";
  int options[] = {5, 6};
  void *values[] = {log, (void *)sizeof log};
  EXPECT_EQ(cu("cuModuleLoadDataEx", &out, (const void *)"no PTX", 2u, options,
               values),
            218);
  EXPECT_NE(std::string(log).find("line 1"), std::string::npos) << log;
  EXPECT_EQ(cu("cuModuleGetFunction", &out, module, "nothing"), 500);
}

TEST_F(FakeCuda, LinkedPtxIsACubinThatRuns) {
  std::string text = ptxOfTests("7.8", "sm_90");
  void *state = nullptr, *cubin = nullptr, *loaded = nullptr;
  size_t size = 0;
  auto link = [&](int type, size_t bytes) {
    return cu("cuLinkAddData", state, type, (void *)text.c_str(), bytes,
              (const char *)"name", 0u, (int *)nullptr, (void **)nullptr);
  };
  auto load = [&](const void *image) {
    return cu("cuModuleLoadDataEx", &loaded, image, 0u, (int *)nullptr,
              (void **)nullptr);
  };
  EXPECT_EQ(cu("cuLinkCreate", 0u, (int *)nullptr, (void **)nullptr, &state),
            0);
  EXPECT_EQ(cu("cuLinkComplete", state, &cubin, &size), 1) << "of nothing";
  EXPECT_EQ(link(0, text.size() + 1), 1) << "not as PTX";
  EXPECT_EQ(link(1, text.size()), 1) << "without its end";
  fakecuda_set("capability", 80);
  EXPECT_EQ(link(1, text.size() + 1), 209);
  fakecuda_set("capability", 90);
  EXPECT_EQ(link(1, text.size() + 1), 0);
  EXPECT_EQ(cu("cuLinkComplete", state, &cubin, &size), 0);
  std::string image((char *)cubin, size);
  int64_t alive = fakecuda_get("alive");
  EXPECT_EQ(cu("cuLinkDestroy", state), 0);
  EXPECT_EQ(cu("cuLinkDestroy", state), 400);
  EXPECT_EQ(fakecuda_get("alive"), alive - 1);
  fakecuda_clear_images();
  EXPECT_EQ(load(image.c_str()), 0);
  EXPECT_EQ(fakecuda_image(0), "cubin of " + text);
  module = loaded, functions.clear();
  increment(&number, nullptr);
  fakecuda_drain();
  EXPECT_EQ(number, 1u);
}

TEST_F(FakeCuda, ImagesAreRefusedOnDemand) {
  std::string text = ptxOfTests();
  void *loaded = nullptr;
  auto load = [&](const char *image) {
    return cu("cuModuleLoadDataEx", &loaded, (const void *)image, 0u,
              (int *)nullptr, (void **)nullptr);
  };
  EXPECT_EQ(load("\x7f"
                 "ELF"),
            209)
      << "real cubins are not run";
  fakecuda_refuse("increment", 222);
  EXPECT_EQ(load(text.c_str()), 222);
  fakecuda_refuse("increment", 0);
  fakecuda_lack("increment", 500);
  EXPECT_EQ(load(text.c_str()), 0);
  void *kernel = nullptr;
  EXPECT_EQ(cu("cuModuleGetFunction", &kernel, loaded, "add"), 500);
  char name[20] = "";
  fakecuda_name("a GPU");
  EXPECT_EQ(cu("cuDeviceGetName", name, 20, 0), 0);
  EXPECT_STREQ(name, "a GPU");
}

TEST_F(FakeCuda, LaunchesAreChecked) {
  void *other = nullptr, *stream = nullptr;
  cu("cuCtxPushCurrent", cuPrimaryContext(1));
  void *elsewhere = cuNewStream();
  cu("cuCtxPopCurrent", &other);
  EXPECT_EQ(launch("increment", {uint64_t(&number)}, elsewhere), 400);
  EXPECT_EQ(launch("increment", {uint64_t(&number)}, (void *)16), 400);
  EXPECT_EQ(launch("increment", {uint64_t(&number)}, stream, 0), 1);
  EXPECT_EQ(launch("increment", {uint64_t(&number)}, stream, 1, 2048), 1);
  EXPECT_EQ(launch("increment", {uint64_t(&number)}, stream, 1, 64), 1)
      << "above .maxntid";
  fakecuda_set("registers", 4096);
  EXPECT_EQ(launch("increment", {uint64_t(&number)}, stream, 1, 32), 701);
  EXPECT_EQ(cu("cuModuleUnload", module), 0);
  EXPECT_EQ(launch("increment", {uint64_t(&number)}, stream), 400);
}

TEST_F(FakeCuda, AttributesOfALaunchAreRead) {
  struct {
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared = 0;
    void *stream = nullptr;
    void *attributes;
    unsigned count = 1;
  } config;
  struct {
    int id = 6, padding = 0, value = 1, rest[15] = {};
  } attribute;
  config.attributes = &attribute;
  uint64_t pointer = uint64_t(&number);
  void *parameters[] = {&pointer}, *kernel = function("increment");
  auto run = [&] {
    return cu("cuLaunchKernelEx", (const void *)&config, kernel, parameters,
              (void **)nullptr);
  };
  attribute.value = 0;
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(cu("cuCtxSynchronize"), 0);
  EXPECT_EQ(number, 1u);
  attribute.value = 7;
  EXPECT_EQ(run(), 1);
  attribute.id = 4;
  EXPECT_EQ(run(), 801);
  attribute.id = 6, attribute.value = 1;
  fakecuda_set("capability", 80);
  EXPECT_EQ(run(), 801) << "not before 9.0";
  fakecuda_set("capability", 90);
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(cu("cuCtxSynchronize"), 719);
  EXPECT_NE(faultWords().find("never waits for it"), std::string::npos);
}

TEST_F(FakeCuda, KernelsAndDevicesHaveAttributes) {
  int value = 0;
  void *kernel = function("increment");
  EXPECT_EQ(cu("cuFuncGetAttribute", &value, 0, kernel), 0);
  EXPECT_EQ(value, 32) << "its .maxntid";
  fakecuda_set("registers", 72);
  EXPECT_EQ(cu("cuFuncGetAttribute", &value, 4, kernel), 0);
  EXPECT_EQ(value, 72);
  EXPECT_EQ(cu("cuDeviceGetAttribute", &value, 75, 1), 0);
  EXPECT_EQ(value, 9);
  EXPECT_EQ(cu("cuDeviceGetAttribute", &value, 75, 2), 101);
  EXPECT_EQ(cu("cuDeviceGetAttribute", &value, 9999, 0), 1);
}

TEST_F(FakeCuda, ContextsAreOfThreadsAndCounted) {
  int device = 7;
  std::thread([&] { EXPECT_EQ(cu("cuCtxGetDevice", &device), 201); }).join();
  EXPECT_EQ(cu("cuCtxGetDevice", &device), 0);
  EXPECT_EQ(device, 0);
  EXPECT_EQ(fakecuda_retained(0), 1);
  EXPECT_EQ(cu("cuDevicePrimaryCtxRelease", 0), 0);
  EXPECT_EQ(cu("cuCtxSynchronize"), 709);
  EXPECT_EQ(cu("cuDevicePrimaryCtxRelease", 0), 201);
  EXPECT_EQ(cu("cuCtxPushCurrent", (void *)1), 201);
}

TEST_F(FakeCuda, AChildOfForkHasNoDriver) {
  pid_t child = fork();
  if (child == 0)
    _exit(cu("cuCtxSynchronize"));
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

} // namespace
