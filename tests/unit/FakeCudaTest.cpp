// What the test driver promises: streams, events, faults, launches, devices.
#include "PtxOfTests.h"

#include <atomic>
#include <cstdint>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {

class FakeCuda : public OneContext {};

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

// As with CUDA: whatever the parent had made current, and at any depth.

TEST_F(FakeCuda, AChildOfForkHasNoDriver) {
  void *stream = cuNewStream(), *event = newEvent();
  auto calls = [&] {
    uint64_t memory = 0;
    void *any = nullptr;
    int number = 0;
    return std::vector<int>{cu("cuInit", 0u),
                            cu("cuDeviceGetCount", &number),
                            cu("cuDevicePrimaryCtxRetain", &any, 0),
                            cu("cuCtxGetCurrent", &any),
                            cu("cuCtxSynchronize"),
                            cu("cuMemAlloc", &memory, size_t(4)),
                            cu("cuEventQuery", event),
                            cu("cuStreamSynchronize", stream),
                            launch("increment", {uint64_t(&other)}, stream)};
  };
  function("increment");
  // The driver's lock may be another thread's, of which a child has none.
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop)
      fakecuda_drain();
  });
  pid_t child = fork();
  if (child == 0) {
    auto codes = calls();
    int wrong = 0;
    for (size_t i = 0; i < codes.size(); ++i)
      wrong += codes[i] != 3; // CUDA_ERROR_NOT_INITIALIZED
    const char *words = nullptr;
    wrong += cu("cuGetErrorName", 3, &words) != 0; // needs no driver
    _exit(wrong);
  }
  int status = 0;
  waitpid(child, &status, 0);
  stop = true;
  busy.join();
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 0) << "the parent goes on";
}

} // namespace
