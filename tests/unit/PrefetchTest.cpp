// How far ahead kernels prefetch: by what /proc/cpuinfo says of this CPU.
#include "bundle/Bundle.h"

#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace altgrad::runtime;

static std::string contents(const char *path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST(Prefetch, AZen4IsNotTakenForAZen3) {
  std::string bytes = contents(SGD_BUNDLE), cpu = contents("/proc/cpuinfo");
  std::shared_ptr<const Bundle> bundle;
  ASSERT_EQ(Bundle::open(bytes.data(), bytes.size(), "sgd", bundle),
            ALTGRAD_OK);
  auto *ahead = static_cast<int64_t *>(bundle->function("altgrad_prefetch"));
  ASSERT_NE(ahead, nullptr);
  auto has = [&](const char *word) { return cpu.find(word) != cpu.npos; };
  if (has("AuthenticAMD") && has(" avx512f "))
    EXPECT_EQ(*ahead, 512);
  else if (has("GenuineIntel"))
    EXPECT_EQ(*ahead, 1024);
  else
    EXPECT_TRUE(*ahead == 0 || *ahead == 1024) << *ahead;
}
