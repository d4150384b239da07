// What an H100 answered where the interpreter used to say something else; the
// driver was 580.159.04.
#include "TestVm.h"

using namespace ptx::test;

struct Answer {
  const char *body; // leaves it in %r2
  uint32_t bits;
};

class Hardware : public testing::TestWithParam<Answer> {};

TEST_P(Hardware, answers) {
  Vm vm(kernel(std::string(GetParam().body) + " st.global.b32 [%rd0], %r2;"));
  std::vector<uint32_t> out(1);
  vm.map(out);
  ASSERT_EQ(vm.with(out).fault(), "none") << vm.message;
  EXPECT_EQ(out[0], GetParam().bits) << GetParam().body;
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(Rows, Hardware, testing::Values(
  // .ftz: (1 - 2^-24) * 2^-126 is flushed, not rounded up to 2^-126, and (1 - 2^-46) * 2^-126 is rounded.
  Answer{"mul.rn.ftz.f32 %r2, 0f20000001, 0f1ffffffe;", 0x00800000},
  Answer{"mul.rm.ftz.f32 %r2, 0fa0000001, 0f1ffffffe;", 0x80800000},
  Answer{"mul.rz.ftz.f32 %r2, 0f20000001, 0f1ffffffe;", 0},
  Answer{"mov.b16 %h0, 0x2001; mov.b16 %h1, 0x1ffe; mul.rn.ftz.f16 %h2, %h0, %h1; cvt.u32.u16 %r2, %h2;", 0x400},
  Answer{"cvt.rn.ftz.f32.f64 %r2, 0d380fffffffc00000;", 0x00800000},
  Answer{"mul.rm.ftz.f32 %r2, 0f3f7fffff, 0f80800000;", 0x80000000},
  Answer{"mad.rn.ftz.f32 %r2, 0f80800000, 0f3f7fffff, 0f80000002;", 0x80000000},
  Answer{"mov.b16 %h0, 0x400; mov.b16 %h1, 0xbbff; mul.rn.ftz.f16 %h2, %h0, %h1; cvt.u32.u16 %r2, %h2;", 0x8000},
  Answer{"mov.b16 %h0, 0x8400; mov.b16 %h1, 0xbbff; mov.b16 %h3, 2; "
         "fma.rn.ftz.sat.f16 %h2, %h0, %h1, %h3; cvt.u32.u16 %r2, %h2;", 0},
  // A subnormal f32 is not flushed on its way to an f16.
  Answer{"cvt.rm.ftz.f16.f32 %h2, 0f80000001; cvt.u32.u16 %r2, %h2;", 0x8001},
  Answer{"cvt.rp.ftz.f16.f32 %h2, 0f00000001; cvt.u32.u16 %r2, %h2;", 1},
  Answer{"cvt.rp.ftz.sat.f16.f32 %h2, 0f00000001; cvt.u32.u16 %r2, %h2;", 1},
  // Zero is a normal number.
  Answer{"testp.normal.f32 %p0, 0f00000000; selp.b32 %r2, 1, 0, %p0;", 1},
  Answer{"testp.normal.f64 %p0, 0d0000000000000000; selp.b32 %r2, 1, 0, %p0;", 1}));
// clang-format on
