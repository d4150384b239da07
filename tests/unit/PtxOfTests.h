// A context with two small kernels: `increment` adds 1 to a word, `add` adds
// one word to another.
#ifndef ALTGRAD_TESTS_PTXOFTESTS_H
#define ALTGRAD_TESTS_PTXOFTESTS_H

#include "TestDriver.h"

#include <functional>
#include <gtest/gtest.h>
#include <map>
#include <set>

inline std::string ptxOfTests(const char *version = "7.8",
                              const char *target = "sm_80") {
  return std::string(".version ") + version + "\n.target " + target +
         R"(
.address_size 64
.visible .entry increment(.param .u64 to)
.maxntid 32, 1, 1
{
.reg .b32 %r<2>;
.reg .b64 %rd<2>;
ld.param.u64 %rd0, [to];
ld.global.u32 %r0, [%rd0];
add.u32 %r1, %r0, 1;
st.global.u32 [%rd0], %r1;
ret;
}
.visible .entry add(.param .u64 to, .param .u64 from)
{
.reg .b32 %r<3>;
.reg .b64 %rd<2>;
ld.param.u64 %rd0, [to];
ld.param.u64 %rd1, [from];
ld.global.u32 %r0, [%rd0];
ld.global.u32 %r1, [%rd1];
add.u32 %r2, %r0, %r1;
st.global.u32 [%rd0], %r2;
ret;
}
)";
}

class OneContext : public testing::Test {
protected:
  void SetUp() override { again(); }
  void TearDown() override { fakecuda_reset(); }

  // A driver without a past, as after a new start of the process.
  void again() {
    fakecuda_reset();
    fakecuda_set("devices", 2);
    cu("cuCtxPushCurrent", cuPrimaryContext());
    std::string text = ptxOfTests();
    ASSERT_EQ(cu("cuModuleLoadDataEx", &module, (const void *)text.c_str(), 0u,
                 (int *)nullptr, (void **)nullptr),
              0);
    functions.clear();
    number = other = 0;
    fakecuda_map(&number, 4);
    fakecuda_map(&other, 4);
  }

  static void *newEvent() {
    void *event = nullptr;
    EXPECT_EQ(cu("cuEventCreate", &event, 2u), 0);
    return event;
  }
  static int upload(uint64_t to, const void *from, size_t bytes, void *stream) {
    return cu("cuMemcpyHtoDAsync", to, from, bytes, stream);
  }
  static std::string faultWords() { return fakecuda_fault(); }

  void *function(const char *name) {
    void *&found = functions[name];
    if (!found)
      cu("cuModuleGetFunction", &found, module, name);
    return found;
  }
  int launch(const char *name, std::vector<uint64_t> values, void *stream,
             unsigned grid = 1, unsigned block = 1) {
    std::vector<void *> parameters;
    for (uint64_t &value : values)
      parameters.push_back(&value);
    return cu("cuLaunchKernel", function(name), grid, 1u, 1u, block, 1u, 1u, 0u,
              stream, parameters.data(), (void **)nullptr);
  }
  void increment(uint32_t *to, void *stream) {
    ASSERT_EQ(launch("increment", {uint64_t(to)}, stream), 0);
  }
  void add(uint32_t *to, const uint32_t *from, void *stream) {
    ASSERT_EQ(launch("add", {uint64_t(to), uint64_t(from)}, stream), 0);
  }

  void *module = nullptr;
  std::map<std::string, void *> functions;
  static inline uint32_t number, other;
};

#endif
