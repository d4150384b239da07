// Huge pages are asked for large memory alone, and change nothing in it.
#include "altgrad/altgrad.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <sys/mman.h>

namespace {

constexpr size_t mib = 1 << 20;

// The "hg" of VmFlags, of the mapping that holds `memory`.
bool isAsked(const void *memory) {
  std::ifstream maps("/proc/self/smaps");
  unsigned long begin, end, at = reinterpret_cast<unsigned long>(memory);
  bool within = false;
  for (std::string line; std::getline(maps, line);) {
    if (sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      within = begin <= at && at < end;
    else if (within && line.rfind("VmFlags:", 0) == 0)
      return line.find(" hg") != std::string::npos;
  }
  return false;
}

class HugePages : public testing::Test {
protected:
  void SetUp() override {
    if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"))
      GTEST_SKIP() << "this system has no huge pages";
    memory = static_cast<char *>(mmap(nullptr, 16 * mib, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
  }
  void TearDown() override {
    if (memory)
      munmap(memory, 16 * mib);
  }
  char *memory = nullptr;
};

TEST_F(HugePages, AreAskedForLargeMemoryThatBeginsWithinAPage) {
  memory[64] = 42;
  altgrad_prefer_huge_pages(memory + 64, 8 * mib);
  EXPECT_TRUE(isAsked(memory));
  EXPECT_TRUE(isAsked(memory + 8 * mib));
  EXPECT_FALSE(isAsked(memory + 9 * mib));
  EXPECT_EQ(memory[64], 42);
}

TEST_F(HugePages, AreNotAskedForLittle) {
  altgrad_prefer_huge_pages(memory, 4 * mib - 1);
  EXPECT_FALSE(isAsked(memory));
  altgrad_prefer_huge_pages(nullptr, 0);
}

} // namespace
