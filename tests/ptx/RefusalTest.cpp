// What the parser refuses, by line and text, instead of guessing.
#include "TestVm.h"

using namespace ptx::test;

static std::string refusalOf(const std::string &instruction) {
  return refusal(kernel(instruction));
}

struct Row {
  const char *instruction, *why;
};

class Refusal : public testing::TestWithParam<Row> {};

TEST_P(Refusal, namesTheLineAndTheReason) {
  EXPECT_EQ(refusalOf(GetParam().instruction),
            std::string("line 15: ") + GetParam().why);
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Rows, Refusal, testing::Values(
  Row{"div.approx.f32 %f0, %f1, %f2;", "'div.approx.f32' is refused: its result is not exactly defined"},
  Row{"rcp.approx.f32 %f0, %f1;", "'rcp.approx.f32' is refused: its result is not exactly defined"},
  Row{"ex2.approx.f32 %f0, %f1;", "'ex2.approx.f32' is refused: its result is not exactly defined"},
  Row{"div.full.f32 %f0, %f1, %f2;", "'div.full.f32' is refused: its result is not exactly defined"},
  Row{"mul.f32 %f0, %f1, %f2;", "'mul.f32' is refused: it states no rounding, write 'mul.rn.f32'"},
  Row{"add.f32 %f0, %f1, %f2;", "'add.f32' is refused: it states no rounding, write 'add.rn.f32'"},
  Row{"add.f64 %rd0, %rd1, %rd2;", "'add.f64' is refused: it states no rounding, write 'add.rn.f64'"},
  Row{"mul.f16x2 %r0, %r1, %r2;", "'mul.f16x2' is refused: it states no rounding, write 'mul.rn.f16x2'"},
  Row{"fma.f32 %f0, %f1, %f2, %f3;", "'fma.f32' is refused: it states no rounding, write 'fma.rn.f32'"},
  Row{"atom.global.add.f32 %f0, [%rd0], %f1;", "'atom.global.add.f32' is refused: the result of a float atomic depends on order"},
  Row{"frobnicate.b32 %r0, %r1;", "unknown opcode 'frobnicate' in 'frobnicate.b32'"},
  Row{"add.rn.f33 %f0, %f1, %f2;", "unknown form 'add.rn.f33' of opcode 'add'"},
  Row{"ld.global.L1::sometimes.b32 %r0, [%rd0];", "unknown form 'ld.global.L1::sometimes.b32' of opcode 'ld'"},
  Row{"call foo;", "unknown opcode 'call' in 'call'"},
  Row{"add.s32 %r0, %rd0, %r1;", "register '%rd0' has 64 bits, 'add.s32' takes 32"},
  Row{"add.s32 %r99, %r0, %r1;", "'%r99' is not declared, or not an operand of 'add.s32'"},
  Row{"add.s32 %r0, %r1;", "expected ',' before ';'"},
  Row{"add.s32 %r0, %r1, 4294967296;", "'4294967296' does not fit 32 bits"},
  Row{"add.s16 %h0, %h1, -32769;", "'32769' does not fit 16 bits"},
  Row{"add.rn.f32 %f0, %f1, 1;", "integer '1' where 'add.rn.f32' takes a float"},
  Row{"add.s32 5, %r0, %r1;", "expected an operand before '5'"},
  Row{"ld.global.b32 %r0, [%r1];", "address register '%r1' has 32 bits"},
  Row{"ld.global.v4.b32 {%r0, %r1}, [%rd0];", "expected ',' before '}'"},
  Row{"ld.global.b32 %h0, [%rd0];", "register '%h0' has 16 bits, 'ld.global.b32' takes 32"},
  Row{"st.global.f32 [%rd0], %rd1;", "register '%rd1' has 64 bits, 'st.global.f32' takes 32"},
  Row{"@%r0 ret;", "'%r0' is not a predicate register"},
  Row{"bra nowhere;", "label 'nowhere' is not defined"},
  Row{"again: again:", "label 'again' is defined twice"},
  Row{"mov.b32 %r0, 0f3F8;", "'0f3F8' needs 8 hexadecimal digits"},
  Row{"mov.b32 %r0, 99999999999999999999;", "number does not fit 64 bits"},
  Row{"mov.u32 %r0, %clock;", "'%clock' is not declared, or not an operand of 'mov.u32'"},
  Row{".reg .b32 %r5;", "register '%r5' is declared twice"},
  Row{".reg .b32 %x<99999999>;", "too many registers"},
  Row{".param .b32 x;", "unknown directive '.param' in a body"},
  Row{"ret; \x01", "unexpected character byte 1"}));
// clang-format on

TEST(RefusalOfModules, namesWhatIsMissing) {
  EXPECT_EQ(refusal(""), "line 1: no .version directive");
  EXPECT_EQ(refusal(".version 7.0\n"), "line 2: no .target directive");
  EXPECT_EQ(refusal(header(".func f() { ret; }")),
            "line 4: '.func' is refused: kernels may not call");
  EXPECT_EQ(refusal(header(".extern .global .b32 x;")),
            "line 4: '.extern' is refused but for dynamic shared memory");
  EXPECT_EQ(refusal(".version 7.0\n.target sm_80\n.address_size 32\n"),
            "line 3: only 64-bit addresses are supported");
  EXPECT_EQ(refusal(header("/* never")), "line 4: comment is never closed");
}
