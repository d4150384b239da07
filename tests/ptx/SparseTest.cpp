// Index arithmetic near 2^31 and 2^32 elements: chosen blocks over sparse
// memory.
#include "TestVm.h"

using namespace ptx::test;

// One byte or word a thread; block 256, so the last block of n elements is
// (n - 1) / 256.
static std::string copy(const std::string &index, const std::string &type,
                        unsigned bytes) {
  return kernel(index + "ld.param.b64 %rd4, [out]; mad.lo.s64 %rd5, %rd3, " +
                std::to_string(bytes) + ", %rd4; ld.global." + type +
                " %r5, [%rd5]; add.s32 %r5, %r5, 1; st.global." + type +
                " [%rd5], %r5;");
}
static const char *const Right = "mul.wide.u32 %rd3, %r1, 256; cvt.u64.u32 "
                                 "%rd2, %r0; add.s64 %rd3, %rd3, %rd2;";
static const char *const Signed32 =
    "mad.lo.s32 %r2, %r1, 256, %r0; cvt.s64.s32 %rd3, %r2;";
static const char *const Unsigned32 =
    "mad.lo.u32 %r2, %r1, 256, %r0; cvt.u64.u32 %rd3, %r2;";

struct Zone {
  std::string fault;
  uint32_t last, first;
};

/// Runs the block that holds element n - 1 of n 4-byte elements.
static Zone lastBlock(const char *index, uint64_t n) {
  Vm vm(copy(index, "b32", 4));
  const uint64_t base = uint64_t(1) << 40;
  EXPECT_TRUE(ptx_reserve(vm.vm, base, n * 4, 0)) << ptx_error();
  uint64_t block = (n - 1) / 256;
  vm.options.first_block = block;
  vm.options.last_block = block + 1;
  Zone z;
  z.fault = vm.with(base).size(uint32_t(block + 1), 256).fault();
  EXPECT_TRUE(ptx_read(vm.vm, base + (n - 1) * 4, &z.last, 4));
  EXPECT_TRUE(ptx_read(vm.vm, base, &z.first, 4));
  return z;
}

TEST(Sparse, sixtyFourBitIndicesReachTheEnd) {
  for (uint64_t n : {uint64_t(1) << 31, (uint64_t(1) << 31) + 256,
                     uint64_t(1) << 32, (uint64_t(1) << 32) + 256}) {
    Zone z = lastBlock(Right, n);
    EXPECT_EQ(z.fault, "none") << n;
    EXPECT_EQ(z.last, 1u) << n;
    EXPECT_EQ(z.first, 0u) << n;
  }
}

TEST(Sparse, aSignedIndexLeavesTheBufferAbove2To31) {
  EXPECT_EQ(lastBlock(Signed32, uint64_t(1) << 31).fault, "none");
  EXPECT_EQ(lastBlock(Signed32, (uint64_t(1) << 31) + 256).fault,
            "out-of-bounds");
}

TEST(Sparse, anUnsignedIndexWritesTheWrongElementAbove2To32) {
  EXPECT_EQ(lastBlock(Unsigned32, uint64_t(1) << 32).last, 1u);
  Zone z = lastBlock(Unsigned32, (uint64_t(1) << 32) + 256);
  EXPECT_EQ(z.fault, "none");
  EXPECT_EQ(z.last, 0u);
  EXPECT_EQ(z.first, 1u);
}

TEST(Sparse, untouchedBytesAreUninitialisedWhenAsked) {
  Vm vm(copy(Right, "b32", 4));
  const uint64_t base = uint64_t(1) << 40;
  EXPECT_TRUE(ptx_reserve(vm.vm, base, uint64_t(1) << 34, PTX_UNINITIALISED));
  EXPECT_EQ(vm.with(base).size(1, 1).fault(), "uninitialised-memory");
  uint32_t word = 41;
  EXPECT_TRUE(ptx_write(vm.vm, base, &word, 4));
  EXPECT_EQ(vm.fault(), "none") << vm.message;
  EXPECT_TRUE(ptx_read(vm.vm, base, &word, 4));
  EXPECT_EQ(word, 42u);
}
