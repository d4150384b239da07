// RUN: altgrad-opt %s --emit=ptx --target=sm_80 | FileCheck %s --check-prefixes=CHECK,SM80 \
// RUN:   --implicit-check-not=.local --implicit-check-not=call \
// RUN:   --implicit-check-not='{{[^r](add|sub|mul|div|sqrt)\.((ftz|approx|full|rz|rm|rp)\.)*f32}}'
// RUN: altgrad-opt %s --emit=ptx --target=sm_90 | FileCheck %s --check-prefixes=CHECK,SM90 \
// RUN:   --implicit-check-not=.local --implicit-check-not=call \
// RUN:   --implicit-check-not='{{[^r](add|sub|mul|div|sqrt)\.((ftz|approx|full|rz|rm|rp)\.)*f32}}'

// The lowest version of PTX that has the instructions.
// SM80: .version 7.0
// SM80: .target sm_80
// SM90: .version 7.8
// SM90: .target sm_90

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %lr: f64, step %t: i64) {
  %p = math.fpowi %lr, %t : f64, i64
  %rate = truncf %p : f64 to f32
  %a = addf %g, %w : f32
  %b = mulf %a, %rate : f32
  %c = subf %w, %b : f32
  %d = divf %c, %a : f32
  %e = math.sqrt %d : f32
  %w1 = math.fma %e, %g, %w : f32
  altgrad.yield param(%w1) state()
}

// Powers are computed in f64, once for the step.
// CHECK-LABEL: .visible .entry altgrad_s_once(
// CHECK: mul.rn.f64
// CHECK: cvt.rn.f32.f64

// A thread loads 16 elements in 16-byte accesses of every format and stores them
// so; nothing is f64. Every operation on f32 rounds to nearest, but the square in a
// reciprocal's refinement; where the guard fails, division and root are the IEEE ones.
// CHECK-LABEL: .visible .entry altgrad_s_update(
// CHECK-NOT: f64
// CHECK: ld.global{{(.nc)?}}.v4.b32
// CHECK: add.rn.f32
// CHECK: mul.rn.f32
// CHECK: sub.rn.f32
// CHECK: rcp.approx.ftz.f32
// CHECK: fma.rp.f32 [[SUM:%r[0-9]+]], [[T:%r[0-9]+]], [[T]], [[T]];
// CHECK: rsqrt.approx.ftz.f32
// CHECK: fma.rn.f32
// SM80-NOT: e4m3x2
// SM90: cvt.rn.satfinite.e4m3x2.f32
// CHECK: st.global.v4.b32
// CHECK-NOT: f64
// SM80-NOT: e4m3x2
// CHECK: ld.relaxed.cta.global.v4.b32
// CHECK: div.rn.f32
// CHECK: sqrt.rn.f32
// The elements that fill no vector go one by one.
// CHECK: ld.global{{(.nc)?}}.b16
// CHECK: st.global.b8
// CHECK-NOT: f64
// CHECK: ret;
altgrad.step @s(in %g: !altgrad.tensors<bf16>, inout %w: !altgrad.tensors<f32>,
                out %q: !altgrad.tensors<ocp.e4m3fn>, in %lr: f64, in %t: i64) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %g : !altgrad.tensors<bf16>
  %w1 = update @r param(%x) grad(%y) state() hyper(%lr) step(%t)
  %c = quantize %w1 round<nearest_even> overflow<saturate> : !altgrad.tensors<ocp.e4m3fn>
  commit always %w1 to %w : !altgrad.tensors<f32>, %c to %q : !altgrad.tensors<ocp.e4m3fn>
}
