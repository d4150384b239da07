// Programmatic dependent launch on the test driver: what the rules allow is
// done in the order that hurts most.
#include "PtxOfTests.h"

namespace {

// `set` copies a word and lets the next launch begin; `early` loads it before
// it waits, `good` after.
const char ptxOfOverlaps[] = R"(.version 7.8
.target sm_90
.address_size 64
.visible .global .align 4 .u32 mark = 1;
.visible .entry set(.param .u64 to, .param .u64 from)
{
.reg .b32 %r<2>;
.reg .b64 %rd<2>;
griddepcontrol.launch_dependents;
ld.param.u64 %rd0, [to];
ld.param.u64 %rd1, [from];
ld.global.u32 %r0, [%rd1];
st.global.u32 [%rd0], %r0;
ret;
}
.visible .entry early(.param .u64 to, .param .u64 from)
{
.reg .b32 %r<2>;
.reg .b64 %rd<2>;
ld.param.u64 %rd0, [to];
ld.param.u64 %rd1, [from];
ld.global.u32 %r0, [%rd1];
griddepcontrol.wait;
st.global.u32 [%rd0], %r0;
ret;
}
.visible .entry good(.param .u64 to, .param .u64 from)
{
.reg .b32 %r<2>;
.reg .b64 %rd<2>;
ld.param.u64 %rd0, [to];
griddepcontrol.wait;
ld.param.u64 %rd1, [from];
ld.global.u32 %r0, [%rd1];
st.global.u32 [%rd0], %r0;
ret;
}
)";

class FakeOverlap : public OneContext {
protected:
  void SetUp() override {
    fakecuda_reset();
    cu("cuCtxPushCurrent", cuPrimaryContext());
    ASSERT_EQ(cu("cuModuleLoadDataEx", &module, (const void *)ptxOfOverlaps, 0u,
                 (int *)nullptr, (void **)nullptr),
              0);
    functions.clear();
    ASSERT_EQ(fakecuda_map(words, sizeof words), 1);
    words[0] = 5, words[1] = words[2] = 0;
  }
  int follow(const char *name, uint32_t *to, uint32_t *from, void *stream) {
    struct {
      int id = 6, padding = 0, value = 1, rest[15] = {};
    } attribute;
    struct {
      unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared = 0;
      void *stream, *attributes;
      unsigned count = 1;
    } config;
    config.stream = stream;
    config.attributes = &attribute;
    uint64_t pointers[] = {uint64_t(to), uint64_t(from)};
    void *parameters[] = {&pointers[0], &pointers[1]};
    return cu("cuLaunchKernelEx", (const void *)&config, function(name),
              parameters, (void **)nullptr);
  }
  void set(uint32_t *to, uint32_t *from, void *stream) {
    ASSERT_EQ(launch("set", {uint64_t(to), uint64_t(from)}, stream), 0);
  }
  static inline uint32_t words[3];
};

TEST_F(FakeOverlap, WhatComesBeforeTheWaitIsDoneFirst) {
  void *stream = cuNewStream();
  set(&words[1], &words[0], stream);
  follow("good", &words[2], &words[1], stream);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 0);
  EXPECT_EQ(words[2], 5u);
  words[0] = 6;
  set(&words[1], &words[0], stream);
  follow("early", &words[2], &words[1], stream);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 0);
  EXPECT_EQ(words[2], 5u) << "of the step before";
  EXPECT_EQ(fakecuda_get("overlapped"), 2);
  fakecuda_set("races", 1);
  fakecuda_unmap(words);
  fakecuda_map(words, sizeof words);
  set(&words[1], &words[0], stream);
  follow("early", &words[2], &words[1], stream);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 719);
  EXPECT_NE(faultWords().find("of the next launch"), std::string::npos)
      << faultWords();
}

TEST_F(FakeOverlap, ADependentThatComesLateIsLookedAtToo) {
  fakecuda_set("races", 1);
  fakecuda_set("eager", 1);
  fakecuda_unmap(words);
  fakecuda_map(words, sizeof words);
  void *stream = cuNewStream();
  set(&words[1], &words[0], stream);
  EXPECT_EQ(follow("early", &words[2], &words[0], stream), 0);
  set(&words[1], &words[0], stream);
  follow("early", &words[2], &words[1], stream);
  EXPECT_NE(faultWords().find("of the launch before"), std::string::npos)
      << faultWords();
  EXPECT_EQ(fakecuda_get("overlapped"), 0);
}

// Only a kernel can let others in: a copy or an event before it ends first.
TEST_F(FakeOverlap, WhatFollowsSomethingElseWaitsForIt) {
  void *stream = cuNewStream(), *event = newEvent();
  set(&words[1], &words[0], stream);
  ASSERT_EQ(cu("cuEventRecord", event, stream), 0);
  follow("early", &words[2], &words[1], stream);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 0);
  EXPECT_EQ(words[2], 5u);
  EXPECT_EQ(fakecuda_get("overlapped"), 0);
}

TEST_F(FakeOverlap, NotUnderCapture) {
  void *stream = cuNewStream(), *graph = nullptr;
  ASSERT_EQ(cu("cuStreamBeginCapture", stream, 0), 0);
  set(&words[1], &words[0], stream);
  EXPECT_EQ(follow("good", &words[2], &words[1], stream), 900);
  EXPECT_EQ(cu("cuStreamEndCapture", stream, &graph), 901);
}

TEST_F(FakeOverlap, AModuleHasVariables) {
  uint64_t address = 0;
  size_t bytes = 0;
  EXPECT_EQ(cu("cuModuleGetGlobal", &address, &bytes, module, "mark"), 0);
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(cu("cuModuleGetGlobal", &address, &bytes, module, "other"), 500);
}

} // namespace
