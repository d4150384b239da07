// Barriers and warp operations that not all threads reach.
#include "TestVm.h"

using namespace ptx::test;

TEST(BarrierDivergence, someThreadsExit) {
  std::string message;
  EXPECT_EQ(faultOf("setp.lt.u32 %p0, %r0, 3; @%p0 ret; bar.sync 0;", 1, 64, 0,
                    &message),
            "barrier-divergence");
  EXPECT_NE(
      message.find("barrier 0 waits for 64 threads, 61 arrived and 3 exited"),
      std::string::npos)
      << message;
}

TEST(BarrierDivergence, aWarpWaitsAtTwoPlaces) {
  std::string two =
      "setp.lt.u32 %p0, %r0, 16; @%p0 bra a;\nBAR 0; bra c;\na: BAR 0;\nc:";
  auto with = [&](const std::string &barrier) {
    std::string text = two;
    for (size_t at; (at = text.find("BAR")) != std::string::npos;)
      text.replace(at, 3, barrier);
    return text;
  };
  std::string message;
  EXPECT_EQ(faultOf(with("bar.sync"), 1, 32, 0, &message),
            "barrier-divergence");
  EXPECT_NE(message.find("threads of one warp wait at lines 17 and 16"),
            std::string::npos)
      << message;
  EXPECT_EQ(faultOf(with("barrier.sync"), 1, 32), "none");
}

TEST(BarrierDivergence, warpsMayWaitAtDifferentPlaces) {
  EXPECT_EQ(faultOf("setp.lt.u32 %p0, %r0, 32; @%p0 bra a; bar.sync 0; bra c; "
                    "a: bar.sync 0; c:",
                    1, 64),
            "none");
}

TEST(BarrierDivergence, differentBarriersWaitForEachOther) {
  EXPECT_EQ(faultOf("setp.lt.u32 %p0, %r0, 32; @%p0 bra a; bar.sync 1; bra c; "
                    "a: bar.sync 2; c:",
                    1, 64),
            "barrier-divergence");
}

TEST(BarrierDivergence, threadsDisagreeOnTheCount) {
  EXPECT_EQ(faultOf("setp.lt.u32 %p0, %r0, 32; selp.b32 %r2, 64, 96, %p0; "
                    "bar.sync 1, %r2;",
                    1, 96),
            "barrier-divergence");
}

TEST(BarrierDivergence, countsAndNumbersAreChecked) {
  EXPECT_EQ(faultOf("bar.sync 0, 33;", 1, 64), "undefined");
  EXPECT_EQ(faultOf("bar.sync 16;", 1, 32), "undefined");
}

TEST(WarpDivergence, aNamedThreadNeverComes) {
  std::string message;
  EXPECT_EQ(faultOf("setp.eq.u32 %p0, %r0, 7; @%p0 bra a; shfl.sync.idx.b32 "
                    "%r2, %r0, 0, 31, -1; a: bar.warp.sync -1;",
                    1, 32, 0, &message),
            "warp-divergence");
  EXPECT_NE(
      message.find("threads in mask 0xffffffff never come to this instruction"),
      std::string::npos)
      << message;
}

TEST(WarpDivergence, aNamedThreadHasExitedOrDoesNotExist) {
  EXPECT_EQ(
      faultOf(
          "setp.eq.u32 %p0, %r0, 0; @%p0 ret; vote.sync.any.pred %p1, %p0, -1;",
          1, 32),
      "warp-divergence");
  EXPECT_EQ(faultOf("bar.warp.sync -1;", 1, 20), "warp-divergence");
}

TEST(WarpDivergence, masksMustAgreeAndNameTheThread) {
  EXPECT_EQ(faultOf("setp.lt.u32 %p0, %r0, 1; selp.b32 %r2, 3, 7, %p0; "
                    "bar.warp.sync %r2;",
                    1, 3),
            "warp-divergence");
  EXPECT_EQ(faultOf("bar.warp.sync 2;", 1, 1), "undefined");
}

TEST(WarpDivergence, halvesOfAWarpMaySynchroniseApart) {
  EXPECT_EQ(faultOf("setp.lt.u32 %p0, %r0, 16; @%p0 bra a; redux.sync.add.u32 "
                    "%r2, %r0, 0xffff0000; bra c;"
                    "a: redux.sync.add.u32 %r2, %r0, 0xffff; c: st.global.b32 "
                    "[%rd1], %r2;",
                    1, 32),
            "none");
}

TEST(WarpDivergence, aShuffleFromOutsideTheMaskGivesNothingDefined) {
  std::string body = "setp.ge.u32 %p0, %r0, 16; @%p0 ret; shfl.sync.idx.b32 "
                     "%r2, %r0, 20, 31, 0xffff;";
  EXPECT_EQ(faultOf(body, 1, 32), "none");
  EXPECT_EQ(faultOf(body + "add.s32 %r3, %r2, 1;", 1, 32),
            "uninitialised-register");
}
