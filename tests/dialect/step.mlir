// RUN: altgrad-opt %s --verify-roundtrip | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s

// Accesses, scopes and names survive printing; altgrad needs no prefix inside.
// CHECK: altgrad.step @train(
// CHECK-NEXT: in %grads: !altgrad.tensors<bf16>,
// CHECK-NEXT: inout %w: !altgrad.tensors<f32>,
// CHECK-NEXT: out %half: !altgrad.tensors<f16>,
// CHECK-NEXT: out %gnorm: f32,
// CHECK-NEXT: in %scale: f32,
// CHECK-NEXT: in %lr: f64 per_group,
// CHECK-NEXT: inout %t: i64 per_tensor,
// CHECK-NEXT: inout %other: !altgrad.tensors<f32> set 1) {
altgrad.step @train(
    in %grads: !altgrad.tensors<bf16>, inout %w: !altgrad.tensors<f32>,
    out %half: !altgrad.tensors<f16>, out %gnorm: f32, in %scale: f32,
    in %lr: f64 per_group, inout %t: i64 per_tensor, inout %other: !altgrad.tensors<f32> set 1) {
  // CHECK: %[[G:.*]], %[[FINITE:.*]] = unscale %grads by %scale : !altgrad.tensors<bf16>
  %g, %finite = unscale %grads by %scale : !altgrad.tensors<bf16>
  // CHECK: dequantize %w : !altgrad.tensors<f32>
  %old = dequantize %w : !altgrad.tensors<f32>
  // CHECK: quantize %[[G]] round<nearest_even> overflow<saturate> : !altgrad.tensors<f16>
  %code = quantize %g round<nearest_even> overflow<saturate> : !altgrad.tensors<f16>
  // CHECK: arith.constant
  %theirs = dequantize %other : !altgrad.tensors<f32>
  %one = arith.constant 1 : i64
  %next = arith.addi %t, %one : i64
  commit always %scale to %gnorm : f32
      if %finite
      %old to %w : !altgrad.tensors<f32>,
      %theirs to %other : !altgrad.tensors<f32>,
      %code to %half : !altgrad.tensors<f16>,
      %next to %t : i64
}
