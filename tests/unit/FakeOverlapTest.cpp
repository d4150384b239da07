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
    config.grid[0] = blocks;
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
  unsigned blocks = 1;
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

// `see` and `soon` load a word in their second block, on a processor where no
// launch of one block runs, behind their wait and before it. `change` stores
// it, `pass` lets the next launch begin.
std::string ptxOfCaches(const char *early) {
  auto kernel = [](const char *name, const std::string &body) {
    return std::string(".visible .entry ") + name +
           "(.param .u64 to, .param .u64 from)\n{\n.reg .pred %p0;\n"
           ".reg .b32 %r<3>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd0, [to];\n"
           "ld.param.u64 %rd1, [from];\nmov.u32 %r0, %ctaid.x;\n"
           "setp.eq.u32 %p0, %r0, 0;\n" +
           body + "ret;\n}\n";
  };
  const std::string waits = "griddepcontrol.wait;\n"
                            "griddepcontrol.launch_dependents;\n";
  return ".version 7.8\n.target sm_90\n.address_size 64\n" +
         kernel("see", waits + "@!%p0 ld.global.u32 %r1, [%rd1];\n") +
         kernel("change", waits + "mov.u32 %r1, 9;\n"
                                  "@%p0 st.global.u32 [%rd1], %r1;\n") +
         kernel("pass", waits) +
         kernel("soon", "@!%p0 ld" + std::string(early) +
                            ".global.u32 %r1, [%rd1];\n" +
                            "griddepcontrol.wait;\n"
                            "@!%p0 st.global.u32 [%rd0], %r1;\n");
}

class FakeCaches : public FakeOverlap {
protected:
  void begin(void *stream) { // of one block, on the first processor
    launch("pass", {uint64_t(&words[2]), uint64_t(&words[1])}, stream);
  }
  void more(const char *name, void *stream) {
    blocks = name[0] == 's' ? 2 : 1;
    follow(name, &words[2], &words[1], stream);
  }
  // What the chain ends with, when `soon` loads in that way.
  int chain(const char *early, int64_t caches = 1) {
    SetUp();
    fakecuda_set("races", 1);
    fakecuda_set("caches", caches);
    fakecuda_unmap(words);
    fakecuda_map(words, sizeof words);
    std::string text = ptxOfCaches(early);
    EXPECT_EQ(cu("cuModuleLoadDataEx", &module, (const void *)text.c_str(), 0u,
                 (int *)nullptr, (void **)nullptr),
              0);
    functions.clear();
    void *stream = cuNewStream();
    begin(stream);
    for (const char *name : {"see", "change", "pass", "soon"})
      more(name, stream);
    return cu("cuStreamSynchronize", stream);
  }
};

TEST_F(FakeCaches, AWeakLoadEarlyInADependentLaunchMayBeStale) {
  EXPECT_EQ(chain(""), 719);
  EXPECT_NE(faultWords().find("stale: read of 4 bytes"), std::string::npos)
      << faultWords();
  EXPECT_NE(faultWords().find("'soon'"), std::string::npos) << faultWords();
  EXPECT_EQ(chain(".relaxed.gpu"), 0);
  EXPECT_EQ(words[2], 9u) << "past the cache";
  EXPECT_EQ(chain(".relaxed.cta"), 719) << "by the cache";
  EXPECT_EQ(chain("", 0), 0) << "without caches nobody sees it";
}

// What is uploaded before a step whose first launch has few blocks.
TEST_F(FakeCaches, AnOrdinaryLaunchEmptiesThemEverywhereOrWhereItRuns) {
  for (int64_t caches : {1, 2}) {
    EXPECT_EQ(chain(".relaxed.gpu", caches), 0);
    void *stream = cuNewStream();
    std::string text = ptxOfCaches("");
    cu("cuModuleLoadDataEx", &module, (const void *)text.c_str(), 0u,
       (int *)nullptr, (void **)nullptr);
    functions.clear();
    auto step = [&](std::vector<const char *> names) {
      begin(stream);
      for (const char *name : names)
        more(name, stream);
      return cu("cuStreamSynchronize", stream);
    };
    words[1] = 10;
    EXPECT_EQ(step({"see"}), 0) << "behind a wait";
    words[1] = 11;
    EXPECT_EQ(step({"soon"}), caches == 1 ? 0 : 719) << faultWords();
  }
}

} // namespace
