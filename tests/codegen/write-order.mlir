// RUN: altgrad-opt %s --emit=report | FileCheck %s

// The rows read %s, so the phase that overwrites it comes after them.
// CHECK: step late: 1 sweep, {{.*}}, 3 launches
// CHECK-NEXT: once once 1 scalar operations
// CHECK-NEXT: rows rows 1 scalar operations, by the last block
// CHECK-NEXT: update chunks
// CHECK-NEXT: once1 once 0 scalar operations
altgrad.step @late(inout %a: !altgrad.tensors<f32>, inout %s: f32, in %u: f32 per_tensor) {
  %one = arith.constant 1.0 : f32
  %s1 = arith.addf %s, %one : f32
  %x = dequantize %a : !altgrad.tensors<f32>
  %xe = element %x
  %v = arith.mulf %u, %s : f32
  %y = arith.mulf %xe, %v : f32
  %x1 = collect %y : f32 to !altgrad.reals
  commit always %x1 to %a : !altgrad.tensors<f32>, %s1 to %s : f32
}
