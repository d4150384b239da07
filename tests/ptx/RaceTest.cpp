// Races on shared and global memory: found when unordered, silent when
// synchronised.
#include "TestVm.h"

using namespace ptx::test;

// Every thread writes its word of `sh`; %rd3 is that word, %rd4 its
// neighbour's.
static std::string sharedSwap(const std::string &between) {
  return "mov.b64 %rd2, sh; mad.wide.u32 %rd3, %r0, 4, %rd2; st.shared.b32 "
         "[%rd3], %r0;"
         "xor.b32 %r2, %r0, 1; mad.wide.u32 %rd4, %r2, 4, %rd2;" +
         between + "ld.shared.b32 %r3, [%rd4]; st.global.b32 [%rd1], %r3;";
}

TEST(SharedRace, writeAfterWriteOfAnotherThread) {
  std::string message;
  EXPECT_EQ(faultOf("st.shared.b32 [sh], %r0;", 1, 2, 0, &message),
            "shared-race");
  EXPECT_NE(message.find("write at 0x1000000 in 'shared memory' by block 0 "
                         "thread 1 is unordered "
                         "with the write by block 0 thread 0 at line 15"),
            std::string::npos)
      << message;
}

TEST(SharedRace, readAfterWriteNeedsABarrier) {
  EXPECT_EQ(faultOf(sharedSwap("bar.sync 0;"), 1, 64), "none");
  // Thread 0 comes first and reads what is not written yet; that is found too.
  EXPECT_EQ(faultOf("mov.b64 %rd2, sh; setp.eq.u32 %p0, %r0, 0; @%p0 "
                    "st.shared.b32 [sh], 1;"
                    "ld.shared.b32 %r3, [sh];",
                    1, 2),
            "shared-race");
}

TEST(SharedRace, writeAfterReadNeedsABarrier) {
  std::string start = "setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.b32 [sh], 1; "
                      "bar.sync 0; ld.shared.b32 %r3, [sh];";
  std::string end = "setp.eq.u32 %p1, %r0, 31; @%p1 st.shared.b32 [sh], 2;";
  EXPECT_EQ(faultOf(start + end, 1, 32), "shared-race");
  EXPECT_EQ(faultOf(start + "bar.sync 0;" + end, 1, 32), "none");
}

TEST(SharedRace, warpBarrierOrdersOneWarpOnly) {
  EXPECT_EQ(faultOf(sharedSwap("bar.warp.sync -1;"), 1, 64), "none");
  std::string across = "setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.b32 [sh], 1; "
                       "bar.warp.sync -1; ld.shared.b32 %r3, [sh];";
  EXPECT_EQ(faultOf(across, 1, 32), "none");
  EXPECT_EQ(faultOf(across, 1, 64), "shared-race");
}

TEST(SharedRace, aShuffleIsNoBarrier) {
  EXPECT_EQ(
      faultOf("setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.b32 [sh], 1;"
              "shfl.sync.idx.b32 %r3, %r0, 0, 31, -1; ld.shared.b32 %r3, [sh];",
              1, 32),
      "shared-race");
}

TEST(SharedRace, atomicsDoNotRaceWithEachOtherButWithStores) {
  std::string zero =
      "setp.eq.u32 %p0, %r0, 0; @%p0 st.shared.b32 [sh], 0; bar.sync 0;";
  EXPECT_EQ(faultOf(zero + "atom.shared.add.u32 %r3, [sh], 1;", 1, 64), "none");
  EXPECT_EQ(
      faultOf(
          zero +
              "atom.shared.add.u32 %r3, [sh], 1; @%p0 st.shared.b32 [sh], 0;",
          1, 64),
      "shared-race");
}

TEST(SharedRace, aNarrowAccessAfterAWideOne) {
  std::string wide = "setp.eq.u32 %p0, %r0, 0; mov.b64 %rd2, sh;"
                     "@%p0 st.shared.v4.b32 [%rd2], {%r0, %r0, %r0, %r0};";
  EXPECT_EQ(faultOf(wide + "@!%p0 st.shared.b32 [%rd2+4], 1;", 1, 2),
            "shared-race");
  EXPECT_EQ(faultOf(wide + "@!%p0 st.shared.b8 [%rd2+15], 1;", 1, 2),
            "shared-race");
  EXPECT_EQ(faultOf(wide + "@!%p0 st.shared.b32 [%rd2+16], 1;"
                           "@%p0 st.shared.b32 [%rd2+20], 1;",
                    1, 2),
            "none");
}

TEST(SharedRace, neighbouringBytesAreNoRace) {
  EXPECT_EQ(faultOf("mov.b64 %rd2, sh; cvt.u64.u32 %rd3, %r0; add.s64 %rd2, "
                    "%rd2, %rd3; cvt.u16.u32 %h0, %r0;"
                    "st.shared.b8 [%rd2], %h0;",
                    1, 64),
            "none");
}

TEST(GlobalRace, twoBlocksOnOneWord) {
  std::string message;
  EXPECT_EQ(faultOf("st.global.b32 [%rd0], %r1;", 2, 1, 0, &message),
            "global-race");
  EXPECT_NE(message.find(
                "by block 1 thread 0 is unordered with the write by block 0"),
            std::string::npos)
      << message;
  EXPECT_EQ(
      faultOf("mad.wide.u32 %rd2, %r1, 4, %rd0; st.global.b32 [%rd2], %r1;", 2),
      "none");
}

TEST(GlobalRace, readByAnotherBlock) {
  EXPECT_EQ(faultOf("setp.eq.u32 %p0, %r1, 0; @%p0 st.global.b32 [%rd0], 1; "
                    "@!%p0 ld.global.b32 %r2, [%rd0];",
                    2),
            "global-race");
  EXPECT_EQ(faultOf("ld.global.b32 %r2, [%rd0]; setp.eq.u32 %p0, %r1, 1; @%p0 "
                    "st.global.b32 [%rd0], 1;",
                    2),
            "global-race");
  EXPECT_EQ(faultOf("ld.global.b32 %r2, [%rd0];", 8, 32), "none");
}

TEST(GlobalRace, aReaderOfAnotherBlockIsRemembered) {
  // Readers of the writer's own block come later, and a barrier orders them.
  EXPECT_EQ(faultOf("ld.global.b32 %r2, [%rd0]; bar.sync 0;"
                    "setp.eq.u32 %p0, %r1, 1; @!%p0 ret;"
                    "setp.eq.u32 %p1, %r0, 5; @%p1 st.global.b32 [%rd0], 1;",
                    2, 64),
            "global-race");
}

TEST(GlobalRace, aBarrierDoesNotOrderBlocks) {
  EXPECT_EQ(faultOf("setp.eq.u32 %p0, %r0, 0; @%p0 st.global.b32 [%rd0], 1; "
                    "bar.sync 0; ld.global.b32 %r2, [%rd0];",
                    1, 64),
            "none");
  EXPECT_EQ(faultOf("setp.eq.u32 %p0, %r0, 0; @%p0 st.global.b32 [%rd0], 1; "
                    "bar.sync 0; ld.global.b32 %r2, [%rd0];",
                    2, 64),
            "global-race");
}

// Blocks write [%rd0+8+4b], take a ticket, and the last of four reads them all.
static std::string lastBlock(const std::string &release,
                             const std::string &atomic,
                             const std::string &acquire) {
  return "mad.wide.u32 %rd2, %r1, 4, %rd0; st.global.b32 [%rd2+8], %r1;" +
         release + atomic + acquire +
         "setp.ne.u32 %p0, %r2, 3; @%p0 ret;"
         "ld.global.b32 %r3, [%rd0+8]; ld.global.b32 %r4, [%rd0+12]; "
         "ld.global.b32 %r5, [%rd0+16];";
}

TEST(GlobalRace, theLastBlockNeedsBothFences) {
  std::string fence = "fence.acq_rel.gpu;",
              ticket = "atom.global.add.u32 %r2, [%rd0], 1;";
  EXPECT_EQ(faultOf(lastBlock(fence, ticket, fence), 4), "none");
  EXPECT_EQ(faultOf(lastBlock("", ticket, fence), 4), "global-race");
  EXPECT_EQ(faultOf(lastBlock(fence, ticket, ""), 4), "global-race");
  EXPECT_EQ(faultOf(lastBlock("membar.gl;", ticket, "membar.gl;"), 4), "none");
}

TEST(GlobalRace, lowGlobalAddressesAreNotTakenForSharedOnes) {
  Vm vm(kernel(lastBlock("fence.acq_rel.gpu;",
                         "atom.global.add.u32 %r2, [%rd0], 1;",
                         "fence.acq_rel.gpu;")));
  EXPECT_TRUE(ptx_reserve(vm.vm, 0x01000000, 64, 0));
  EXPECT_EQ(vm.with(uint64_t(0x01000000)).size(4, 1).fault(), "none")
      << vm.message;
}

TEST(GlobalRace, ticketsThatAcquireAndReleaseNeedNoFence) {
  EXPECT_EQ(
      faultOf(
          lastBlock("", "atom.acq_rel.gpu.global.add.u32 %r2, [%rd0], 1;", ""),
          4),
      "none");
  EXPECT_EQ(
      faultOf(
          lastBlock("", "atom.release.gpu.global.add.u32 %r2, [%rd0], 1;", ""),
          4),
      "global-race");
  EXPECT_EQ(
      faultOf(
          lastBlock("", "atom.acq_rel.cta.global.add.u32 %r2, [%rd0], 1;", ""),
          4),
      "global-race");
}

TEST(GlobalRace, theTicketCoversTheBlocksOtherThreads) {
  std::string body =
      "shl.b32 %r6, %r1, 6; add.s32 %r6, %r6, %r0; mad.wide.u32 %rd2, %r6, 4, "
      "%rd0; st.global.b32 [%rd2+64], %r6;"
      "SYNC setp.ne.u32 %p0, %r0, 0; @%p0 ret;"
      "atom.acq_rel.gpu.global.add.u32 %r2, [%rd0], 1; setp.ne.u32 %p1, %r2, "
      "1; @%p1 ret;"
      "ld.global.b32 %r3, [%rd0+252]; ld.global.b32 %r3, [%rd0+508];";
  std::string with = body, without = body;
  with.replace(with.find("SYNC"), 4, "bar.sync 0;");
  without.replace(without.find("SYNC"), 4, "");
  EXPECT_EQ(faultOf(with, 2, 64), "none");
  EXPECT_EQ(faultOf(without, 2, 64), "global-race");
}

TEST(GlobalRace, aSpinningBlockAcquiresAFlag) {
  std::string body =
      "setp.eq.u32 %p0, %r1, 0; @%p0 bra wait;"
      "st.global.b32 [%rd0+8], 42; st.release.gpu.global.b32 [%rd0], 1; ret;"
      "wait: ld.ACQ.gpu.global.b32 %r2, [%rd0]; setp.eq.u32 %p1, %r2, 0; @%p1 "
      "bra wait;"
      "ld.global.b32 %r3, [%rd0+8]; st.global.b32 [%rd0+12], %r3;";
  auto run = [&](const char *order) {
    std::string text = body;
    text.replace(text.find("ACQ"), 3, order);
    Vm vm(kernel(text));
    std::vector<uint32_t> out(8);
    vm.map(out);
    vm.options.resident_blocks = 2;
    std::string kind = vm.with(out).size(2, 1).fault();
    return kind + " " + std::to_string(out[3]);
  };
  EXPECT_EQ(run("acquire"), "none 42");
  EXPECT_EQ(run("relaxed"), "global-race 0");
}

TEST(GlobalRace, whatComesAfterTheReleaseIsNotCovered) {
  auto withLateStore = [](const char *word) {
    return faultOf("setp.eq.u32 %p0, %r1, 1; @%p0 bra reader;"
                   "st.global.b32 [%rd0+8], 1;"
                   "st.release.gpu.global.b32 [%rd0], 1;"
                   "st.global.b32 [%rd0+12], 1; ret;"
                   "reader: ld.acquire.gpu.global.b32 %r2, [%rd0];"
                   "ld.global.b32 %r3, [%rd0+" +
                       std::string(word) + "];",
                   2);
  };
  EXPECT_EQ(withLateStore("8"), "none");
  EXPECT_EQ(withLateStore("12"), "global-race");
}

TEST(GlobalRace, acquiringPassesOnWhatTheWriterHadAcquired) {
  // Block 0 to block 1 by one flag, block 1 to block 2 by another.
  std::string chain =
      "setp.eq.u32 %p0, %r1, 0; @%p0 st.global.b32 [%rd0+16], 1;"
      "@%p0 st.release.gpu.global.b32 [%rd0], 1; @%p0 ret;"
      "setp.eq.u32 %p1, %r1, 2; @%p1 bra third;"
      "ld.ACQ.gpu.global.b32 %r2, [%rd0];"
      "st.release.gpu.global.b32 [%rd0+4], 1; ret;"
      "third: ld.acquire.gpu.global.b32 %r2, [%rd0+4];"
      "ld.global.b32 %r3, [%rd0+16];";
  auto with = [&](const char *order) {
    std::string text = chain;
    return faultOf(text.replace(text.find("ACQ"), 3, order), 3);
  };
  EXPECT_EQ(with("acquire"), "none");
  EXPECT_EQ(with("relaxed"), "global-race");
}

TEST(GlobalRace, aFenceOfTheBlockDoesNotAcquireFromAnother) {
  std::string body = "setp.eq.u32 %p0, %r1, 0; @%p0 st.global.b32 [%rd0+16], 1;"
                     "@%p0 st.release.gpu.global.b32 [%rd0], 1; @%p0 ret;"
                     "ld.relaxed.gpu.global.b32 %r2, [%rd0]; FENCE"
                     "ld.global.b32 %r3, [%rd0+16];";
  auto with = [&](const char *fence) {
    std::string text = body;
    return faultOf(text.replace(text.find("FENCE"), 5, fence), 2);
  };
  EXPECT_EQ(with("fence.acq_rel.gpu;"), "none");
  EXPECT_EQ(with("fence.acq_rel.cta;"), "global-race");
}

TEST(GlobalRace, launchesAreOrdered) {
  Vm vm(kernel("ld.global.b32 %r2, [%rd0]; setp.eq.u32 %p0, %r0, 0; bar.sync "
               "0; add.s32 %r2, %r2, 1; @%p0 st.global.b32 [%rd0], %r2;"));
  std::vector<uint32_t> out(1);
  vm.map(out);
  vm.with(out).size(1, 32);
  EXPECT_TRUE(vm.launch()) << vm.message;
  EXPECT_TRUE(vm.launch()) << vm.message;
  EXPECT_EQ(out[0], 2u);
}

TEST(GlobalRace, canBeSwitchedOff) {
  Vm vm(kernel("st.global.b32 [%rd0], %r1;"));
  std::vector<uint32_t> out(1);
  vm.map(out);
  vm.options.skip_race_check = 1;
  EXPECT_EQ(vm.with(out).size(2, 1).fault(), "none");
}
