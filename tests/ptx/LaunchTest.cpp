// Launch options: wrong ones are refused in words; block ranges, orders and
// turns work.
#include "TestVm.h"

#include <numeric>

using namespace ptx::test;

static std::string why(void (*change)(Vm &),
                       const std::string &directive = "") {
  std::string text =
      header(".visible .entry k(.param .u64 out) " + directive + " { ret; }\n");
  Vm vm(text);
  vm.with(uint64_t(0));
  change(vm);
  EXPECT_EQ(vm.fault(), "bad-launch");
  return vm.message;
}

TEST(Launch, wrongParameterBlock) {
  EXPECT_EQ(why([](Vm &vm) { vm.with(uint32_t(0)); }),
            "launch of 'k': bad-launch: a parameter block of 12 bytes, kernel "
            "'k' takes 8");
}

TEST(Launch, wrongShapes) {
  EXPECT_EQ(why([](Vm &vm) { vm.size(1, 1025); }),
            "launch of 'k': bad-launch: a block of (1025, 1, 1) threads, at "
            "most 1024 are possible");
  EXPECT_EQ(why([](Vm &vm) { vm.size(0, 32); }),
            "launch of 'k': bad-launch: a grid of (0, 1, 1) blocks");
  EXPECT_EQ(
      why([](Vm &vm) { vm.size(1, 64); }, ".maxntid 32"),
      "launch of 'k': bad-launch: a block of 64 threads, '.maxntid' is 32");
  EXPECT_EQ(why([](Vm &vm) { vm.size(1, 64); }, ".reqntid 32, 2"),
            "launch of 'k': bad-launch: a block of (64, 1, 1) threads, "
            "'.reqntid' is (32, 2, 1)");
  EXPECT_EQ(why([](Vm &vm) { vm.options.dynamic_shared_bytes = 1 << 20; }),
            "launch of 'k': bad-launch: more than 227 KB of shared memory");
  EXPECT_EQ(why([](Vm &vm) { vm.options.first_block = 5; }).substr(0, 37),
            "launch of 'k': bad-launch: no block i");
}

TEST(Launch, unknownKernel) {
  Vm vm(header(".visible .entry k() { ret; }\n"));
  EXPECT_FALSE(vm.launch("j"));
  EXPECT_EQ(vm.message, "bad-launch: no kernel 'j'");
}

TEST(Launch, chosenBlocksOnly) {
  Vm vm(kernel("mad.wide.u32 %rd2, %r1, 4, %rd0; st.global.b32 [%rd2], 1;"));
  std::vector<uint32_t> out(8);
  vm.map(out);
  vm.options.first_block = 2;
  vm.options.last_block = 5;
  ASSERT_TRUE(vm.with(out).size(8, 1).launch()) << vm.message;
  EXPECT_EQ(out, (std::vector<uint32_t>{0, 0, 1, 1, 1, 0, 0, 0}));
}

TEST(Launch, ordersVisitEveryBlockOnce) {
  for (uint32_t order : {PTX_FORWARD, PTX_BACKWARD, PTX_SHUFFLED}) {
    Vm vm(kernel("atom.global.add.u32 %r2, [%rd0], 1; mad.wide.u32 %rd2, %r1, "
                 "4, %rd0; st.global.b32 [%rd2+4], %r2;"));
    std::vector<uint32_t> out(13);
    vm.map(out);
    vm.options.order = order;
    vm.options.seed = 5;
    ASSERT_TRUE(vm.with(out).size(12, 1).launch()) << vm.message;
    std::vector<uint32_t> tickets(out.begin() + 1, out.end()), forward(12);
    std::iota(forward.begin(), forward.end(), 0);
    EXPECT_EQ(tickets == forward, order == PTX_FORWARD);
    EXPECT_EQ(tickets[0], order == PTX_BACKWARD ? 11 : tickets[0]);
    std::sort(tickets.begin(), tickets.end());
    EXPECT_EQ(tickets, forward);
  }
}

TEST(Launch, threeDimensionsAndSpecialRegisters) {
  Vm vm(kernel(
      R"(mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ntid.y;
mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r0;
mov.u32 %r7, %ctaid.y; mov.u32 %r8, %ctaid.z; mov.u32 %r9, %nctaid.y; mov.u32 %r10, %nctaid.x;
mad.lo.u32 %r11, %r8, %r9, %r7; mad.lo.u32 %r11, %r11, %r10, %r1;
mov.u32 %r12, %ntid.z; mul.lo.u32 %r13, %r4, %r5; mul.lo.u32 %r13, %r13, %r12; mad.lo.u32 %r14, %r11, %r13, %r6;
mov.u32 %r15, %laneid; mov.u32 %r16, %warpid; mad.lo.u32 %r17, %r16, 32, %r15;
mad.wide.u32 %rd2, %r14, 4, %rd0; st.global.b32 [%rd2], %r17;)"));
  std::vector<uint32_t> out(60 * 6, 99);
  vm.map(out);
  uint32_t grid[] = {1, 2, 3}, block[] = {3, 4, 5};
  std::copy(grid, grid + 3, vm.options.grid);
  std::copy(block, block + 3, vm.options.block);
  ASSERT_TRUE(vm.with(out).launch()) << vm.message;
  for (uint32_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(out[i], i % 60) << i;
}

TEST(Launch, laneMasks) {
  for (auto [name, want] : {std::pair<const char *, uint32_t>{"eq", 32},
                            {"lt", 31},
                            {"le", 63},
                            {"gt", ~63u},
                            {"ge", ~31u}}) {
    Vm vm(kernel("mov.u32 %r2, %lanemask_" + std::string(name) +
                 "; st.global.b32 [%rd1], %r2;"));
    std::vector<uint32_t> out(32);
    vm.map(out);
    ASSERT_TRUE(vm.with(out).size(1, 32).launch()) << vm.message;
    EXPECT_EQ(out[5], want) << name;
  }
}

TEST(Launch, hostCallsCheckTheirRanges) {
  Vm vm(header(".visible .entry k() { ret; }\n"));
  uint32_t word = 1;
  EXPECT_FALSE(ptx_read(vm.vm, 4096, &word, 4));
  EXPECT_TRUE(ptx_reserve(vm.vm, 4096, 8, 0));
  EXPECT_FALSE(ptx_reserve(vm.vm, 4100, 8, 0)) << "overlaps";
  EXPECT_FALSE(ptx_reserve(vm.vm, 4092, 8, 0)) << "overlaps";
  EXPECT_FALSE(ptx_reserve(vm.vm, 0, 8, 0)) << "null";
  EXPECT_FALSE(ptx_reserve(vm.vm, uint64_t(1) << 63, 8, 0));
  EXPECT_FALSE(ptx_reserve(vm.vm, 8192, 0, 0));
  EXPECT_FALSE(ptx_write(vm.vm, 4100, &word, 8));
  EXPECT_TRUE(ptx_write(vm.vm, 4100, &word, 4));
  word = 0;
  EXPECT_TRUE(ptx_read(vm.vm, 4100, &word, 4));
  EXPECT_EQ(word, 1u);
  EXPECT_TRUE(ptx_unmap(vm.vm, 4096));
  EXPECT_FALSE(ptx_unmap(vm.vm, 4096));
}
