// One planted fault of each kind is found, by its name and line.
#include "TestVm.h"

using namespace ptx::test;

TEST(Fault, outOfBoundsJustPastTheEnd) {
  std::string message;
  EXPECT_EQ(faultOf("ld.global.b32 %r2, [%rd0+1024];", 1, 1, 0, &message),
            "out-of-bounds");
  EXPECT_EQ(message.substr(0, 24), "line 15: out-of-bounds: ");
  EXPECT_NE(message.find("0 bytes past the end of"), std::string::npos)
      << message;
}

TEST(Fault, outOfBoundsBeforeTheStart) {
  EXPECT_EQ(faultOf("st.global.b32 [%rd0-4], 1;"), "out-of-bounds");
}

TEST(Fault, outOfBoundsByTheLastBytesOfAVector) {
  EXPECT_EQ(faultOf("ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd0+1008];"),
            "none");
  Vm vm(kernel("ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd0];"));
  alignas(16) static uint32_t three[4];
  ASSERT_TRUE(ptx_map(vm.vm, uint64_t(three), three, 12, 0));
  EXPECT_EQ(vm.with(uint64_t(three)).fault(), "out-of-bounds");
}

TEST(Fault, nullPointer) {
  EXPECT_EQ(faultOf("mov.b64 %rd2, 0; ld.global.b32 %r2, [%rd2];"),
            "out-of-bounds");
  EXPECT_EQ(faultOf("mov.b64 %rd2, 0; ld.b32 %r2, [%rd2];"), "out-of-bounds");
  EXPECT_EQ(faultOf("mov.b32 %r3, 0; ld.shared.b32 %r2, [%r3];"),
            "out-of-bounds");
}

TEST(Fault, outOfBoundsInSharedLocalParamAndConst) {
  EXPECT_EQ(faultOf("st.shared.b32 [sh+256], 1;"), "out-of-bounds");
  EXPECT_EQ(faultOf(".local .align 4 .b8 lo[8]; st.local.b32 [lo+8], 1;"),
            "out-of-bounds");
  EXPECT_EQ(faultOf("ld.param.b64 %rd2, [out+8];"), "out-of-bounds");
  EXPECT_EQ(faultOf("mov.b64 %rd2, 67108864; ld.const.b32 %r2, [%rd2];"),
            "out-of-bounds");
}

TEST(Fault, misalignedScalarAndVector) {
  EXPECT_EQ(faultOf("ld.global.b32 %r2, [%rd0+2];"), "misaligned");
  EXPECT_EQ(faultOf("add.s64 %rd2, %rd0, 8; and.b64 %rd3, %rd0, 8; add.s64 "
                    "%rd2, %rd2, %rd3;"
                    "or.b64 %rd2, %rd2, 8; ld.global.v4.b32 {%r2, %r3, %r4, "
                    "%r5}, [%rd2];"),
            "misaligned");
}

TEST(Fault, wrongStateSpace) {
  std::string message;
  EXPECT_EQ(
      faultOf("mov.b64 %rd2, sh; st.global.b32 [%rd2], 1;", 1, 1, 0, &message),
      "wrong-state-space");
  EXPECT_NE(message.find("lies in shared memory, the access is to global"),
            std::string::npos)
      << message;
  EXPECT_EQ(faultOf("ld.shared.b32 %r2, [%rd0];"), "wrong-state-space");
  EXPECT_EQ(faultOf("mov.b64 %rd2, sh; cvta.shared.u64 %rd3, %rd2; "
                    "st.shared.b32 [%rd3], 1;"),
            "wrong-state-space");
  EXPECT_EQ(faultOf("cvta.to.shared.u64 %rd2, %rd0;"), "wrong-state-space");
}

TEST(Fault, genericAddressesReachEverySpace) {
  EXPECT_EQ(faultOf("mov.b64 %rd2, sh; cvta.shared.u64 %rd3, %rd2; st.b32 "
                    "[%rd3], 1; st.b32 [%rd0], 1;"),
            "none");
}

TEST(Fault, writeToReadOnlyMemory) {
  EXPECT_EQ(faultOf("ld.global.b32 %r2, [%rd0];", 1, 1, PTX_READ_ONLY), "none");
  EXPECT_EQ(faultOf("st.global.b32 [%rd0], 1;", 1, 1, PTX_READ_ONLY),
            "read-only");
  EXPECT_EQ(faultOf("red.global.add.u32 [%rd0], 1;", 1, 1, PTX_READ_ONLY),
            "read-only");
}

TEST(Fault, uninitialisedRegister) {
  std::string message;
  EXPECT_EQ(faultOf("add.s32 %r2, %r0, %r9;", 1, 1, 0, &message),
            "uninitialised-register");
  EXPECT_NE(message.find("'%r9'"), std::string::npos) << message;
  EXPECT_EQ(faultOf("@%p3 ret;"), "uninitialised-register");
  EXPECT_EQ(faultOf("ld.global.b32 %r2, [%rd9];"), "uninitialised-register");
}

TEST(Fault, uninitialisedBytesOfGlobalMemory) {
  unsigned flag = PTX_UNINITIALISED;
  std::string message;
  EXPECT_EQ(faultOf("ld.global.b32 %r2, [%rd0];", 1, 1, flag),
            "uninitialised-memory");
  EXPECT_EQ(faultOf("st.global.b32 [%rd0], 1; ld.global.b32 %r2, [%rd0];", 1, 1,
                    flag),
            "none");
  EXPECT_EQ(faultOf("st.global.b16 [%rd0], 1; st.global.b8 [%rd0+3], 1; "
                    "ld.global.b32 %r2, [%rd0];",
                    1, 1, flag, &message),
            "uninitialised-memory");
  EXPECT_NE(message.find("2 of 'region"), std::string::npos) << message;
}

TEST(Fault, uninitialisedSharedAndLocalMemory) {
  EXPECT_EQ(faultOf("ld.shared.b32 %r2, [sh];"), "uninitialised-memory");
  EXPECT_EQ(faultOf(".local .align 4 .b8 lo[8]; ld.local.b32 %r2, [lo];"),
            "uninitialised-memory");
}

TEST(Fault, predicatedOffAccessTouchesNothing) {
  EXPECT_EQ(faultOf("setp.ne.u32 %p0, %r0, %r0; mov.b64 %rd2, 0; @%p0 "
                    "ld.global.b32 %r2, [%rd2];"
                    "@%p0 st.global.b32 [%rd2], 1;"),
            "none");
}

TEST(Fault, kernelThatNeverEnds) {
  Vm vm(kernel("loop: bra loop;"));
  std::vector<uint32_t> out(1);
  vm.map(out);
  vm.options.step_limit = 100000;
  EXPECT_EQ(vm.with(out).fault(), "step-limit");
  EXPECT_EQ(ptx_fault_line(vm.vm), 15u);
  EXPECT_EQ(ptx_steps(vm.vm), 100000u);
}

TEST(Fault, trap) { EXPECT_EQ(faultOf("trap;"), "trap"); }

TEST(Fault, indexOutsideABranchTable) {
  EXPECT_EQ(
      faultOf("t: .branchtargets a, b; mov.b32 %r2, 2; brx.idx %r2, t; a: b:"),
      "undefined");
}

TEST(Fault, fieldBeyondPlace255) {
  EXPECT_EQ(faultOf("mov.b32 %r2, 256; bfe.u32 %r3, %r0, %r2, 1;"),
            "undefined");
  EXPECT_EQ(faultOf("mov.b32 %r2, 256; bfi.b32 %r3, %r0, %r0, 1, %r2;"),
            "undefined");
}

TEST(Fault, theMessageQuotesTheInstructionAndTheThread) {
  std::string message;
  faultOf("setp.eq.u32 %p0, %r0, 5;\n@%p0 st.global.b32 [%rd0+4096], 1;", 2, 32,
          0, &message);
  EXPECT_NE(message.find("(block (0, 0, 0) thread (5, 0, 0): @%p0 "
                         "st.global.b32 [%rd0+4096], 1;)"),
            std::string::npos)
      << message;
}
