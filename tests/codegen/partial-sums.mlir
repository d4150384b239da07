// RUN: altgrad-opt %s --emit=ptx --target=sm_80 | FileCheck %s

// Of several sums, shared memory has as many as four blocks of a multiprocessor
// have room for; the others are registers. A thread's words lie 8 bytes after
// its neighbour's: no barrier comes before all chunks are done.
// CHECK-LABEL: .entry altgrad_s_reduce(
// CHECK: .shared .align 8 .b8 altgrad_s_reduce_sums[32768];
// CHECK: mov.b64 [[SUMS:%rd[0-9]+]], altgrad_s_reduce_sums;
// CHECK: add.s64 [[OWN:%rd[0-9]+]], [[SUMS]],
// CHECK: st.shared.v2.b32 {{\[}}[[OWN]]], {0f00000000, 0f00000000};
// CHECK: st.shared.v2.b32 {{\[}}[[OWN]]+30720], {0f00000000, 0f00000000};
// CHECK-NOT: {{st.shared|bar.sync}}
// CHECK: ld.global{{.*}}v4
// CHECK: ld.volatile.shared.v2.b32
// CHECK-NOT: bar.sync
// CHECK: st.global.b32

// One sum, a maximum and a conjunction are registers.
// CHECK-LABEL: .entry altgrad_s_reduce_1(
// CHECK-NOT: altgrad_s_reduce_1_sums
// CHECK: .entry
altgrad.step @s(in %p: !altgrad.tensors<f32>, in %q: !altgrad.tensors<f32> set 1,
                out %a: f32, out %b: f32, out %c: f32, out %d: f32, out %e: f32, out %f: f32) {
  %x = dequantize %p : !altgrad.tensors<f32>
  %y = element %x
  %y2 = arith.mulf %y, %y : f32
  %y3 = arith.mulf %y, %y2 : f32
  %a1 = reduce add %y over step : f32
  %b1 = reduce sumsq %y over step : f32
  %c1 = reduce sumsq %y2 over step : f32
  %d1 = reduce add %y3 over step : f32
  %e1 = reduce sumsq %y3 over step : f32

  %u = dequantize %q : !altgrad.tensors<f32>
  %v = element %u
  %sum = reduce add %v over step : f32
  %most = reduce max %v over step : f32
  %number = arith.cmpf ord, %v, %v : f32
  %all = reduce and %number over step : i1
  %f1 = arith.select %all, %most, %sum : f32
  commit always %a1 to %a : f32, %b1 to %b : f32, %c1 to %c : f32, %d1 to %d : f32,
      %e1 to %e : f32, %f1 to %f : f32
}
