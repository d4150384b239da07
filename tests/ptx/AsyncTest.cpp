// What cp.async brings may be read behind a wait for it and a barrier, and
// nothing before; ldmatrix reads as other loads do.
#include "TestVm.h"

using namespace ptx::test;

static const char *const Globals = ".shared .align 16 .b8 sh[2048];";

// Thread t of 64 copies 16 bytes from [out + 16 t] to [sh + 16 t], of which
// thread t ^ 32, in the other warp, stores the first word.
static std::string faultOfCopy(const std::string &behind,
                               const std::string &before = "",
                               std::string *message = nullptr) {
  Vm vm(kernel("mul.wide.u32 %rd4, %r0, 16; mov.b64 %rd2, sh; add.s64 %rd3, %rd2, %rd4;"
               "xor.b32 %r2, %r0, 32; mul.wide.u32 %rd6, %r2, 16; add.s64 %rd7, %rd2, %rd6;"
               "add.s64 %rd5, %rd0, %rd4; add.s64 %rd5, %rd5, 1024;" +
                   before + "cp.async.cg.shared.global [%rd3], [%rd5], 16;" +
                   behind + "ld.shared.b32 %r3, [%rd7]; st.global.b32 [%rd1], %r3;",
               Globals));
  std::vector<uint32_t> out(512);
  for (uint32_t i = 0; i < 256; ++i)
    out[256 + i] = i;
  vm.map(out);
  std::string kind = vm.with(out).size(1, 64).fault();
  if (message)
    *message = vm.message;
  for (uint32_t i = 0; kind == "none" && i < 64; ++i)
    EXPECT_EQ(out[i], 4 * (i ^ 32)) << i;
  return kind;
}

TEST(Async, isReadBehindAWaitAndABarrier) {
  EXPECT_EQ(faultOfCopy("cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;"), "none");
  EXPECT_EQ(faultOfCopy("cp.async.wait_all; bar.sync 0;"), "none");
}

TEST(Async, aBarrierAloneIsNotEnough) {
  std::string message;
  EXPECT_EQ(faultOfCopy("cp.async.commit_group; bar.sync 0;", "", &message), "shared-race");
  EXPECT_NE(message.find("is unordered with the pending write by block 0 thread 31"), std::string::npos) << message;
}

TEST(Async, aWaitAloneIsNotEnough) {
  EXPECT_EQ(faultOfCopy("cp.async.wait_all;"), "uninitialised-memory");
  EXPECT_EQ(faultOfCopy("bar.sync 0; cp.async.wait_all;"), "shared-race");
}

TEST(Async, onlyGroupsThatAreCommittedAreWaitedFor) {
  EXPECT_EQ(faultOfCopy("cp.async.wait_group 0; bar.sync 0;"), "shared-race");
  EXPECT_EQ(faultOfCopy("cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;"), "shared-race");
  EXPECT_EQ(faultOfCopy("cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;"), "none");
}

TEST(Async, whatOthersStillReadIsNotOverwritten) {
  std::string read = "st.shared.b32 [%rd3], %r0; bar.sync 0; ld.shared.b32 %r3, [%rd7];";
  std::string wait = "cp.async.wait_all; bar.sync 0;";
  EXPECT_EQ(faultOfCopy(wait, read + "bar.sync 0;"), "none");
  EXPECT_EQ(faultOfCopy(wait, read), "shared-race");
  EXPECT_EQ(faultOfCopy("bar.sync 0;" + wait, read), "shared-race") << "the copy begins before the barrier";
}

TEST(Async, theThreadItselfWaitsToo) {
  auto own = [](const std::string &wait) {
    Vm vm(kernel("cp.async.ca.shared.global [sh], [%rd0], 4;" + wait + "ld.shared.b32 %r2, [sh];", Globals));
    std::vector<uint32_t> out(4);
    vm.map(out);
    return vm.with(out).size(1, 1).fault();
  };
  EXPECT_EQ(own("cp.async.wait_all;"), "none");
  EXPECT_EQ(own(""), "shared-race");
  EXPECT_EQ(own("bar.sync 0;"), "shared-race");
}

TEST(Async, sizesAreConstantsAndAligned) {
  auto copy = [](const std::string &text) { return faultOf(text + "cp.async.wait_all;"); };
  EXPECT_EQ(copy("cp.async.ca.shared.global [sh], [%rd0], 8;"), "none");
  EXPECT_EQ(copy("cp.async.cg.shared.global [sh], [%rd0], 8;"), "undefined");
  EXPECT_EQ(copy("cp.async.ca.shared.global [sh], [%rd0], 16, 17;"), "undefined");
  EXPECT_EQ(copy("cp.async.ca.shared.global [sh], [%rd0+8], 16;"), "misaligned");
  EXPECT_EQ(copy("cp.async.ca.shared.global [sh+8], [%rd0], 16;"), "misaligned");
  EXPECT_EQ(copy("cp.async.ca.shared.global [sh], [%rd0+1024], 16;"), "out-of-bounds");
  EXPECT_EQ(copy("cp.async.ca.shared.global [sh], [%rd0+1024], 16, 0;"), "none") << "nothing is read";
}

TEST(Async, ldmatrixNeedsABarrierAfterAStore) {
  auto load = [](const std::string &between) {
    return faultOf("mov.b64 %rd2, sh; mul.wide.u32 %rd3, %r0, 16; and.b64 %rd3, %rd3, 127; add.s64 %rd3, %rd2, %rd3;"
                   "setp.lt.u32 %p0, %r0, 8; @%p0 st.shared.v4.b32 [%rd3], {%r0, %r0, %r0, %r0};" +
                       between + "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [%rd3]; st.global.b32 [%rd1], %r2;",
                   1, 32);
  };
  EXPECT_EQ(load("bar.warp.sync -1;"), "none");
  EXPECT_EQ(load(""), "shared-race");
}

TEST(Async, matricesTakeAWholeWarp) {
  EXPECT_EQ(faultOf("st.shared.b32 [sh], 0; ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r2}, [sh];", 1, 16),
            "warp-divergence");
}
