// RUN: altgrad-opt %s --altgrad-expand-formats --split-input-file --verify-diagnostics | FileCheck %s

// Lists become what is loaded, computed and stored for one element.
// CHECK-LABEL: @narrow
altgrad.step @narrow(inout %w: !altgrad.tensors<bf16>, out %q: !altgrad.tensors<ocp.e5m2>) {
  // CHECK: %[[C:.*]] = load %w : !altgrad.tensors<bf16>
  // CHECK: %[[X:.*]] = decode %[[C]] format<bf16> : i16 to f32
  %x = dequantize %w : !altgrad.tensors<bf16>
  // CHECK: %[[A:.*]] = encode %[[X]] format<bf16> round<nearest_even> overflow<nonfinite> : f32 to i16
  // CHECK: collect %[[A]] : i16 to !altgrad.tensors<bf16>
  %a = quantize %x round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  // CHECK: encode %[[X]] format<ocp.e5m2> round<nearest_even> overflow<saturate> : f32 to i8
  %b = quantize %x round<nearest_even> overflow<saturate> : !altgrad.tensors<ocp.e5m2>
  commit always %a to %w : !altgrad.tensors<bf16>, %b to %q : !altgrad.tensors<ocp.e5m2>
}

// The factor of a list is multiplied in where the element is used, an f32 is its
// own code but for NaN, and a list nobody uses is not loaded.
// CHECK-LABEL: @factor
altgrad.step @factor(inout %w: !altgrad.tensors<f32>, in %u: !altgrad.tensors<f32>, in %k: f32) {
  // CHECK: %[[X:.*]] = load %w
  // CHECK-NOT: load
  %x = dequantize %w : !altgrad.tensors<f32>
  %unused = dequantize %u : !altgrad.tensors<f32>
  %e = element %x
  %l = collect %e by %k : f32 to !altgrad.reals
  // CHECK: %[[P:.*]] = arith.mulf %[[X]], %k : f32
  // CHECK: %[[C:.*]] = encode %[[P]] format<f32> round<nearest_even> overflow<nonfinite> : f32 to f32
  // CHECK: %[[L:.*]] = collect %[[C]] : f32 to !altgrad.reals
  // CHECK: commit always
  // CHECK-NEXT: %[[L]] to %w
  commit always %l to %w : !altgrad.tensors<f32>
}

// What was quantized in this step lies in no memory: its code is decoded, not loaded.
// CHECK-LABEL: @twice
altgrad.step @twice(inout %w: !altgrad.tensors<f32>, in %k: f32) {
  // CHECK: load %w
  %x = dequantize %w : !altgrad.tensors<f32>
  // CHECK: %[[C:.*]] = encode %{{.*}} format<bf16>
  %c = quantize %x round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  // CHECK-NOT: load
  // CHECK: decode %[[C]] format<bf16> : i16 to f32
  %y = dequantize %c : !altgrad.tensors<bf16>
  commit always %y to %w : !altgrad.tensors<f32>
}

// -----

altgrad.step @order(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  // expected-error@+1 {{'altgrad.update' op stands in a step that is not inlined yet; run altgrad-inline-rules before altgrad-expand-formats}}
  %y = update @r param(%x) grad(%x) state() hyper()
  commit always %y to %w : !altgrad.tensors<f32>
}

// -----

altgrad.step @order(inout %w: !altgrad.tensors<f32>, in %k: f32) {
  // expected-error@+1 {{'altgrad.unscale' op stands in a step that is not expanded yet; run altgrad-expand-gradients before altgrad-expand-formats}}
  %x, %ok = unscale %w by %k : !altgrad.tensors<f32>
  %e = element %x
  %l = collect %e : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}
