// What the test driver promises about capture: graphs, and what spoils them.
#include "PtxOfTests.h"

#include <thread>

namespace {

class FakeCapture : public OneContext {
protected:
  void SetUp() override {
    OneContext::SetUp();
    stream = cuNewStream();
    side = cuNewStream();
  }
  void begin(int mode = 0) {
    ASSERT_EQ(cu("cuStreamBeginCapture", stream, mode), 0);
  }
  int end() { return cu("cuStreamEndCapture", stream, &graph); }
  int status(void *of) {
    int value = -1;
    EXPECT_EQ(cu("cuStreamIsCapturing", of, &value), 0);
    return value;
  }
  void *instantiate() {
    void *executable = nullptr;
    EXPECT_EQ(end(), 0);
    EXPECT_EQ(
        cu("cuGraphInstantiateWithFlags", &executable, graph, uint64_t(0)), 0);
    return executable;
  }
  int replay(void *executable, void *on) {
    return cu("cuGraphLaunch", executable, on);
  }
  static int record(void *event, void *of, unsigned flags = 0) {
    return cu("cuEventRecordWithFlags", event, of, flags);
  }
  static int wait(void *of, void *event, unsigned flags = 0) {
    return cu("cuStreamWaitEvent", of, event, flags);
  }

  void *stream = nullptr, *side = nullptr, *graph = nullptr;
};

TEST_F(FakeCapture, WhatIsCapturedIsDoneInEveryReplay) {
  begin();
  EXPECT_EQ(status(stream), 1);
  EXPECT_EQ(status(side), 0);
  increment(&number, stream);
  add(&other, &number, stream);
  void *executable = instantiate();
  EXPECT_EQ(status(stream), 0);
  EXPECT_EQ(cu("cuGraphDestroy", graph), 0);
  fakecuda_drain();
  EXPECT_EQ(number, 0u);
  for (uint32_t round : {1, 2, 3}) {
    EXPECT_EQ(replay(executable, stream), 0);
    EXPECT_EQ(cu("cuStreamSynchronize", stream), 0);
    EXPECT_EQ(number, round);
  }
  EXPECT_EQ(other, 6u);
  EXPECT_EQ(fakecuda_get("launches"), 6);
  EXPECT_EQ(cu("cuGraphExecDestroy", executable), 0);
  EXPECT_EQ(replay(executable, stream), 1);
}

TEST_F(FakeCapture, ACopyReadsItsSourceInTheReplay) {
  void *pinned = nullptr;
  uint64_t memory = 0;
  ASSERT_EQ(cu("cuMemHostAlloc", &pinned, size_t(4), 0u), 0);
  ASSERT_EQ(cu("cuMemAlloc", &memory, size_t(4)), 0);
  *(uint32_t *)pinned = 1;
  begin();
  ASSERT_EQ(upload(memory, pinned, 4, stream), 0);
  add(&number, (uint32_t *)memory, stream);
  void *executable = instantiate();
  for (uint32_t value : {10, 20}) {
    *(uint32_t *)pinned = value;
    replay(executable, stream);
    fakecuda_drain();
  }
  EXPECT_EQ(number, 30u);
  EXPECT_EQ(cu("cuMemFreeHost", pinned), 0);
  replay(executable, stream);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 700);
  EXPECT_NE(faultWords().find("has been freed"), std::string::npos);
}

// Tables and modules that a graph holds must outlive it.
TEST_F(FakeCapture, AReplayAfterItsMemoryOrModuleIsGoneIsAFault) {
  for (bool unloads : {false, true}) {
    again();
    SetUp();
    uint64_t memory = 0;
    ASSERT_EQ(cu("cuMemAlloc", &memory, size_t(4)), 0);
    cu("cuMemsetD8Async", memory, (unsigned char)0, size_t(4), stream);
    begin();
    increment((uint32_t *)memory, stream);
    void *executable = instantiate();
    EXPECT_EQ(replay(executable, stream), 0);
    EXPECT_EQ(cu("cuStreamSynchronize", stream), 0);
    if (unloads)
      EXPECT_EQ(cu("cuModuleUnload", module), 0);
    else
      EXPECT_EQ(cu("cuMemFree", memory), 0);
    EXPECT_EQ(replay(executable, stream), 0);
    EXPECT_EQ(cu("cuStreamSynchronize", stream), unloads ? 719 : 700);
    EXPECT_NE(faultWords().find(unloads ? "has been unloaded" : "been freed"),
              std::string::npos)
        << faultWords();
  }
}

TEST_F(FakeCapture, UnsafeCallsSpoilIt) {
  uint64_t memory = 0;
  void *host = nullptr, *out = nullptr, *event = newEvent();
  std::string text = ptxOfTests();
  ASSERT_EQ(cu("cuMemAlloc", &memory, size_t(4)), 0);
  std::vector<std::function<int()>> calls{
      [&] { return cu("cuMemAlloc", &memory, size_t(4)); },
      [&] { return cu("cuMemFree", memory); },
      [&] { return cu("cuMemHostAlloc", &host, size_t(4), 0u); },
      [&] { return cu("cuModuleUnload", module); },
      [&] {
        return cu("cuModuleLoadDataEx", &out, (const void *)text.c_str(), 0u,
                  (int *)nullptr, (void **)nullptr);
      },
      [&] { return cu("cuEventSynchronize", event); },
      [&] { return cu("cuEventQuery", event); },
      [&] { return cu("cuCtxSynchronize"); },
      [&] { return cu("cuStreamSynchronize", stream); },
      [&] { return upload(uint64_t(&number), &text, 4, stream); }};
  for (auto &call : calls) {
    begin();
    increment(&number, stream);
    EXPECT_EQ(call(), 900) << &call - calls.data();
    EXPECT_EQ(status(stream), 2);
    EXPECT_EQ(launch("increment", {uint64_t(&number)}, stream), 901);
    EXPECT_EQ(record(event, stream), 901);
    EXPECT_EQ(end(), 901);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(status(stream), 0);
  }
  increment(&number, stream);
  EXPECT_EQ(cu("cuStreamSynchronize", stream), 0) << "the stream can be used";
}

TEST_F(FakeCapture, ModesSayWhoMayCallWhatIsUnsafe) {
  struct Row {
    int capture, thread;
    int here, there;
  } rows[] = {{0, 0, 900, 900},
              {1, 0, 900, 0},
              {2, 0, 0, 0},
              {0, 1, 900, 0},
              {0, 2, 0, 0}};
  for (const Row &row : rows) {
    auto allocate = [&] {
      int mode = row.thread;
      uint64_t memory = 0;
      EXPECT_EQ(cu("cuThreadExchangeStreamCaptureMode", &mode), 0);
      int error = cu("cuMemAlloc", &memory, size_t(4));
      EXPECT_EQ(cu("cuThreadExchangeStreamCaptureMode", &mode), 0);
      EXPECT_EQ(mode, row.thread) << "as it was put";
      return error;
    };
    begin(row.capture);
    void *context = cuPrimaryContext();
    std::thread([&] {
      cu("cuCtxPushCurrent", context);
      EXPECT_EQ(allocate(), row.there) << row.capture << row.thread;
    }).join();
    EXPECT_EQ(allocate(), row.here) << row.capture << row.thread;
    EXPECT_EQ(end(), row.here || row.there ? 901 : 0);
  }
}

TEST_F(FakeCapture, AnEventOfOutsideIsRefusedUnlessItIsExternal) {
  void *event = newEvent();
  ASSERT_EQ(record(event, side), 0);
  begin();
  EXPECT_EQ(wait(stream, event), 905);
  EXPECT_EQ(end(), 901);
  begin();
  EXPECT_EQ(wait(stream, event, 1), 0);
  EXPECT_EQ(end(), 0);
  EXPECT_EQ(wait(stream, event, 1), 1) << "only under capture";
  EXPECT_EQ(record(event, stream, 1), 1) << "only under capture";
}

// How replays are ordered with eager work on another stream, both ways.
TEST_F(FakeCapture, ExternalEventsOrderReplaysWithOtherStreams) {
  for (bool external : {false, true}) {
    again();
    SetUp();
    void *before = newEvent(), *after = newEvent();
    begin();
    if (external)
      ASSERT_EQ(wait(stream, before, 1), 0);
    increment(&number, stream);
    if (external)
      ASSERT_EQ(record(after, stream, 1), 0);
    void *executable = instantiate();
    for (int round = 0; round < 2; ++round) {
      add(&number, &number, side); // doubles it
      ASSERT_EQ(record(before, side), 0);
      ASSERT_EQ(replay(executable, stream), 0);
      ASSERT_EQ(wait(side, after), 0);
      add(&other, &number, side);
    }
    EXPECT_EQ(cu("cuEventSynchronize", external ? after : before), 0);
    EXPECT_EQ(number, external ? 3u : 0u) << "0 * 2 + 1, then * 2 + 1";
    fakecuda_drain();
    if (external)
      EXPECT_EQ(other, 1u + 3u);
  }
}

TEST_F(FakeCapture, OneGraphsReplaysFollowEachOther) {
  for (int seed = 0; seed < 10; ++seed) {
    again();
    SetUp();
    fakecuda_set("seed", seed);
    begin();
    add(&other, &number, stream);
    increment(&number, stream);
    void *executable = instantiate();
    replay(executable, stream);
    replay(executable, side);
    fakecuda_drain();
    EXPECT_EQ(other, 1u);
  }
}

TEST_F(FakeCapture, AStreamJoinsByAnEventAndMustComeBack) {
  void *fork = newEvent(), *back = newEvent();
  for (bool joins : {true, false}) {
    begin();
    increment(&number, stream);
    ASSERT_EQ(record(fork, stream), 0);
    ASSERT_EQ(wait(side, fork), 0);
    EXPECT_EQ(status(side), 1);
    add(&other, &number, side);
    ASSERT_EQ(record(back, side), 0);
    if (joins)
      ASSERT_EQ(wait(stream, back), 0);
    add(&number, &other, stream);
    EXPECT_EQ(cu("cuStreamEndCapture", side, &graph), 903);
    EXPECT_EQ(end(), 901) << "which spoilt it";
    begin();
    increment(&number, stream);
    record(fork, stream);
    wait(side, fork);
    add(&other, &number, side);
    record(back, side);
    if (joins)
      wait(stream, back);
    EXPECT_EQ(end(), joins ? 0 : 904);
    EXPECT_EQ(status(side), 0);
    EXPECT_EQ(cu("cuEventSynchronize", back), 907);
    EXPECT_EQ(wait(side, back), 907);
  }
}

// Branches of a graph have no order but their edges.
TEST_F(FakeCapture, BranchesOverlapAsTheyLike) {
  std::set<uint32_t> results;
  for (int seed = 0; seed < 20; ++seed) {
    again();
    SetUp();
    fakecuda_set("seed", seed);
    void *fork = newEvent(), *back = newEvent();
    begin();
    record(fork, stream);
    wait(side, fork);
    increment(&number, stream);
    add(&other, &number, side);
    record(back, side);
    wait(stream, back);
    replay(instantiate(), stream);
    fakecuda_drain();
    results.insert(other);
  }
  EXPECT_EQ(results.size(), 2u);
}

TEST_F(FakeCapture, CapturesDoNotMerge) {
  void *event = newEvent(), *second = nullptr;
  begin();
  record(event, stream);
  ASSERT_EQ(cu("cuStreamBeginCapture", side, 0), 0);
  EXPECT_EQ(wait(side, event), 902);
  EXPECT_EQ(cu("cuStreamEndCapture", side, &second), 901);
  EXPECT_EQ(end(), 901);
  begin();
  record(event, stream);
  EXPECT_EQ(cu("cuEventSynchronize", event), 900) << "unsafe at any time";
  EXPECT_EQ(end(), 901);
  begin(2);
  record(event, stream);
  EXPECT_EQ(cu("cuEventQuery", event), 907);
  EXPECT_EQ(end(), 901);
}

TEST_F(FakeCapture, TheLegacyStreamIsNotCapturedAndNotUsedBesides) {
  EXPECT_EQ(cu("cuStreamBeginCapture", (void *)nullptr, 0), 900);
  void *blocking = cuNewStream(0);
  int value = 0;
  for (bool uses : {false, true}) {
    ASSERT_EQ(cu("cuStreamBeginCapture", blocking, 0), 0);
    EXPECT_EQ(cu("cuStreamIsCapturing", (void *)nullptr, &value), 906);
    if (uses)
      EXPECT_EQ(launch("increment", {uint64_t(&number)}, nullptr), 906);
    EXPECT_EQ(cu("cuStreamEndCapture", blocking, &graph), uses ? 901 : 0);
  }
  begin(); // a non-blocking one has nothing to do with it
  EXPECT_EQ(launch("increment", {uint64_t(&number)}, nullptr), 0);
  EXPECT_EQ(end(), 0);
}

TEST_F(FakeCapture, BeginAndEndBelongTogether) {
  EXPECT_EQ(end(), 401);
  begin();
  uint64_t id = 0, later = 0;
  int value = 0;
  auto info = [&](uint64_t *to) {
    return cu("cuStreamGetCaptureInfo", stream, &value, to, (void **)nullptr,
              (const void ***)nullptr, (size_t *)nullptr);
  };
  EXPECT_EQ(info(&id), 0);
  EXPECT_EQ(value, 1);
  int error = 0;
  void *context = cuPrimaryContext();
  std::thread([&] {
    cu("cuCtxPushCurrent", context);
    error = end();
  }).join();
  EXPECT_EQ(error, 908);
  EXPECT_EQ(end(), 901);
  begin();
  EXPECT_EQ(info(&later), 0);
  EXPECT_NE(id, later);
  EXPECT_EQ(cu("cuStreamBeginCapture", stream, 0), 401);
  EXPECT_EQ(end(), 901);
  EXPECT_EQ(cu("cuStreamBeginCapture", stream, 3), 1);
}

} // namespace
