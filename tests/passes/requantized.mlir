// RUN: altgrad-opt %s --altgrad-sweeps | FileCheck %s

// unscale of what was quantized in this step: one load, and no sweep of its own.
// CHECK-LABEL: @unscaled
altgrad.step @unscaled(inout %w: !altgrad.tensors<f32>, in %k: f32) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %c = quantize %x round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  // CHECK: sweep {{.*}} load(%{{.*}} from %w : !altgrad.tensors<f32>) {{.*}} store(%w
  // CHECK: encode %{{.*}} format<bf16>
  // CHECK: decode
  // CHECK: arith.mulf %{{.*}}, %k
  %y, %fine = unscale %c by %k : !altgrad.tensors<bf16>
  commit always %y to %w : !altgrad.tensors<f32>
}
