// What the test driver promises of memory: whose it is, who may touch it, and
// when.
#include "PtxOfTests.h"

#include <cstdint>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

class FakeMemory : public OneContext {};

// The pinned buffer of an upload must not be written before the upload is done.
TEST_F(FakeMemory, APinnedBufferThatIsReusedTooEarlyGivesWrongBytes) {
  void *pinned = nullptr, *stream = cuNewStream();
  uint64_t memory = 0;
  ASSERT_EQ(cu("cuMemHostAlloc", &pinned, size_t(4), 0u), 0);
  ASSERT_EQ(cu("cuMemAlloc", &memory, size_t(4)), 0);
  *(uint32_t *)pinned = 7;
  ASSERT_EQ(upload(memory, pinned, 4, stream), 0);
  *(uint32_t *)pinned = 8;
  add(&number, (uint32_t *)memory, stream);
  fakecuda_drain();
  EXPECT_EQ(number, 8u);
  ASSERT_EQ(upload(memory, pinned, 4, stream), 0);
  EXPECT_EQ(cu("cuMemFreeHost", pinned), 0) << "it does not wait";
  fakecuda_drain();
  EXPECT_NE(faultWords().find("has been freed"), std::string::npos)
      << faultWords();
}

TEST_F(FakeMemory, MoreThan48KilobytesOfSharedMemoryAreAskedFor) {
  uint64_t pointer = uint64_t(&number);
  void *parameters[] = {&pointer}, *kernel = function("increment");
  auto run = [&](unsigned bytes) {
    return cu("cuLaunchKernel", kernel, 1u, 1u, 1u, 1u, 1u, 1u, bytes,
              (void *)nullptr, parameters, (void **)nullptr);
  };
  EXPECT_EQ(run(65536), 1);
  EXPECT_EQ(cu("cuFuncSetAttribute", kernel, 8, 300000), 1);
  fakecuda_set("capability", 86);
  EXPECT_EQ(cu("cuFuncSetAttribute", kernel, 8, 102400), 1) << "99 KB there";
  EXPECT_EQ(cu("cuFuncSetAttribute", kernel, 8, 65536), 0);
  EXPECT_EQ(run(65536), 0);
  EXPECT_EQ(cu("cuCtxSynchronize"), 0);
  EXPECT_EQ(number, 1u);
}

TEST_F(FakeMemory, PageableMemoryMakesACopyWait) {
  void *stream = cuNewStream();
  increment(&number, stream);
  uint32_t host = 5;
  EXPECT_EQ(upload(uint64_t(&other), &host, 4, stream), 0);
  EXPECT_EQ(number, 1u);
  EXPECT_EQ(other, 5u);
  EXPECT_EQ(fakecuda_calls("pageable copy"), 1);
}

TEST_F(FakeMemory, CopiesAndFillsOfDeviceMemory) {
  void *stream = cuNewStream(), *pinned = nullptr;
  uint64_t memory[2] = {};
  for (uint64_t &one : memory)
    ASSERT_EQ(cu("cuMemAlloc", &one, size_t(8)), 0);
  ASSERT_EQ(cu("cuMemHostAlloc", &pinned, size_t(8), 0u), 0);
  auto fill = [&](uint64_t to, unsigned char value, size_t bytes) {
    return cu("cuMemsetD8Async", to, value, bytes, stream);
  };
  EXPECT_EQ(fill(memory[0], 3, 8), 0);
  EXPECT_EQ(cu("cuMemcpyDtoDAsync", memory[1], memory[0], size_t(8), stream),
            0);
  EXPECT_EQ(cu("cuMemcpyDtoHAsync", pinned, memory[1], size_t(8), stream), 0);
  fakecuda_drain();
  EXPECT_EQ(*(uint64_t *)pinned, 0x0303030303030303u);
  EXPECT_EQ(fill(memory[0], 3, 9), 1) << "past the end";
  EXPECT_EQ(upload(memory[0] + 4, pinned, 8, stream), 1);
  EXPECT_EQ(upload(4096, pinned, 8, stream), 1);
}

TEST_F(FakeMemory, CopiesGoBetweenDevices) {
  void *context = nullptr, *stream = cuNewStream();
  uint64_t here = 0, there = 0;
  ASSERT_EQ(cu("cuMemAlloc", &here, size_t(4)), 0);
  cu("cuCtxPushCurrent", cuPrimaryContext(1));
  ASSERT_EQ(cu("cuMemAlloc", &there, size_t(4)), 0);
  cu("cuCtxPopCurrent", &context);
  number = 7;
  for (auto [to, from] :
       {std::pair{there, uint64_t(&number)}, std::pair{here, there},
        std::pair{uint64_t(&other), here}})
    EXPECT_EQ(cu("cuMemcpyAsync", to, from, size_t(4), stream), 0);
  EXPECT_EQ(
      cu("cuMemcpyPeerAsync", here, context, there, context, size_t(4), stream),
      0);
  EXPECT_EQ(other, 0u) << "nothing waits";
  fakecuda_drain();
  EXPECT_EQ(other, 7u);
  EXPECT_STREQ(fakecuda_fault(), "");
}

TEST_F(FakeMemory, KernelsMayOnlyTouchWhatTheirDeviceHas) {
  enum Which { Own, Freed, Elsewhere, Mapped, Unknown };
  struct Row {
    Which which;
    int64_t offset;
    int code;
    const char *words;
  } rows[] = {{Own, 0, 719, "is read before it is written"},
              {Own, 4, 700, "2 bytes before the end"},
              {Own, 8, 700, "2 bytes past the end of 'allocation"},
              {Own, -4, 700, "4 bytes before the start of 'allocation"},
              {Own, 2, 716, "misaligned"},
              {Freed, 0, 700, "has been freed"},
              {Elsewhere, 0, 700, "is not memory of cuda:0"},
              {Mapped, 0, 700, "is not memory of cuda:0"},
              {Unknown, 0, 700, "nor known to fakecuda_map"},
              {Unknown, 4096, 700, "nor known to fakecuda_map"}};
  static uint32_t mapped[2];
  for (const Row &row : rows) {
    again();
    uint64_t memory[5] = {};
    void *context = nullptr;
    memory[Mapped] = uint64_t(mapped);
    ASSERT_EQ(cu("cuMemAlloc", &memory[Own], size_t(6)), 0);
    ASSERT_EQ(cu("cuMemAlloc", &memory[Freed], size_t(8)), 0);
    ASSERT_EQ(cu("cuMemFree", memory[Freed]), 0);
    cu("cuCtxPushCurrent", cuPrimaryContext(1));
    ASSERT_EQ(cu("cuMemAlloc", &memory[Elsewhere], size_t(8)), 0);
    cu("cuCtxPopCurrent", &context);
    ASSERT_TRUE(fakecuda_map_device(mapped, sizeof mapped, 1));
    increment((uint32_t *)(memory[row.which] + uint64_t(row.offset)), nullptr);
    EXPECT_EQ(cu("cuStreamSynchronize", nullptr), row.code) << row.words;
    EXPECT_NE(faultWords().find(row.words), std::string::npos)
        << row.words << ": " << faultWords();
    EXPECT_NE(faultWords().find("kernel 'increment' on cuda:0"),
              std::string::npos);
  }
}

TEST_F(FakeMemory, MappedRangesComeAndGo) {
  static uint32_t all[5], *words = all + 1;
  EXPECT_TRUE(fakecuda_map(words, 8));
  EXPECT_FALSE(fakecuda_map(words + 1, 8)) << "overlaps";
  EXPECT_FALSE(fakecuda_map(words - 1, 8)) << "overlaps";
  EXPECT_TRUE(fakecuda_map(words + 2, 8));
  increment(words + 1, nullptr);
  fakecuda_drain();
  EXPECT_EQ(words[1], 1u);
  EXPECT_TRUE(fakecuda_unmap(words));
  EXPECT_FALSE(fakecuda_unmap(words));
  increment(words + 1, nullptr);
  fakecuda_drain();
  EXPECT_EQ(words[1], 1u);
  EXPECT_EQ(cu("cuCtxSynchronize"), 700);
}

TEST_F(FakeMemory, AnyMemoryOfTheProcessWhereThatIsAskedFor) {
  fakecuda_set("host", 1);
  uint32_t local = 0;
  static const uint32_t constant = 5;
  std::vector<uint32_t> heap(1 << 20);
  increment(&local, nullptr);
  add(&heap[1 << 19], &constant, nullptr);
  fakecuda_drain();
  EXPECT_EQ(local, 1u);
  EXPECT_EQ(heap[1 << 19], 5u);
  EXPECT_EQ(launch("increment", {uint64_t(&constant)}, nullptr), 0);
  EXPECT_EQ(cu("cuCtxSynchronize"), 700);
  EXPECT_NE(faultWords().find("read-only"), std::string::npos) << faultWords();
  again();
  fakecuda_set("host", 1);
  increment((uint32_t *)4096, nullptr);
  EXPECT_EQ(cu("cuCtxSynchronize"), 700) << "a wild address is no signal";
  EXPECT_NE(faultWords().find("this process has no memory there"),
            std::string::npos);
}

// What the process maps and unmaps between two launches is noticed.
TEST_F(FakeMemory, MemoryOfTheProcessMayChange) {
  fakecuda_set("host", 1);
  constexpr size_t page = 4096;
  auto *memory = (uint32_t *)mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  auto at = [&](size_t byte) { return memory + byte / 4; };
  ASSERT_EQ(munmap(at(page), page), 0);
  increment(memory, nullptr);
  fakecuda_drain();
  ASSERT_EQ(mmap(at(page), page, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
            at(page));
  increment(at(page), nullptr);
  fakecuda_drain();
  EXPECT_EQ(memory[0] + *at(page), 2u);
  EXPECT_EQ(cu("cuMemcpyDtoDAsync", uint64_t(at(page)) - 8,
               uint64_t(at(page)) - 16, size_t(16), (void *)nullptr),
            0)
      << "across two regions";
  fakecuda_drain();
  EXPECT_STREQ(fakecuda_fault(), "");
  ASSERT_EQ(munmap(memory, page), 0);
  increment(memory, nullptr);
  EXPECT_EQ(cu("cuCtxSynchronize"), 700);
  EXPECT_NE(faultWords().find("this process has no memory there"),
            std::string::npos);
  munmap(at(page), page);
}

// A device's memory is not for the host to read, as on a machine with one.
TEST_F(FakeMemory, TheHostCannotTouchADevicesMemory) {
  uint64_t memory = 0;
  ASSERT_EQ(cu("cuMemAlloc", &memory, size_t(4)), 0);
  pid_t child = fork();
  if (child == 0) {
    volatile uint32_t value = *(uint32_t *)memory;
    _exit(int(value * 0));
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_NE(status, 0);
}

TEST_F(FakeMemory, MemoryRunsOutAndComesBack) {
  fakecuda_set("memory", 1000);
  uint64_t first = 0, second = 0;
  EXPECT_EQ(cu("cuMemAlloc", &first, size_t(600)), 0);
  EXPECT_EQ(first % 256, 0u);
  EXPECT_EQ(cu("cuMemAlloc", &second, size_t(600)), 2);
  EXPECT_EQ(cu("cuMemFree", first), 0);
  EXPECT_EQ(cu("cuMemFree", first), 1) << "twice";
  EXPECT_EQ(cu("cuMemAlloc", &second, size_t(600)), 0);
  EXPECT_NE(first, second) << "a freed address does not come back";
}

} // namespace
