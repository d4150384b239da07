// RUN: altgrad-opt %s --verify-roundtrip | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s

// As many lists as are given come back, and one norm.
// CHECK-LABEL: @clip
altgrad.step @clip(inout %a: !altgrad.tensors<bf16>, inout %b: !altgrad.tensors<f32>,
                   in %limit: f32, out %norm: f32) {
  %x = dequantize %a : !altgrad.tensors<bf16>
  %y = dequantize %b : !altgrad.tensors<f32>
  // CHECK: %[[ONE:.*]], %{{.*}} = clip_by_global_norm %{{.*}} to %limit
  %x1, %first = clip_by_global_norm %x to %limit
  // CHECK: %[[TWO:.*]]:2, %[[NORM:.*]] = clip_by_global_norm %[[ONE]], %{{.*}} to %limit
  %x2, %y2, %both = clip_by_global_norm %x1, %y to %limit
  // CHECK: quantize %[[TWO]]#0
  %c = quantize %x2 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  // CHECK: %[[NORM]] to %norm : f32
  commit always %both to %norm : f32, %c to %a : !altgrad.tensors<bf16>,
      %y2 to %b : !altgrad.tensors<f32>
}

// What a clip consists of, and what a bound may follow from.
// CHECK-LABEL: @parts
altgrad.step @parts(in %a: !altgrad.tensors<bf16>, in %limit: f32, inout history %past: f32, out %c: f32) {
  %x = dequantize %a : !altgrad.tensors<bf16>
  // CHECK: %[[NORM:.*]] = norm l2 %{{.*}} over step
  %n = norm l2 %x over step
  // CHECK: %[[SHORT:.*]] = round %[[NORM]] format<bf16>
  %short = round %n format<bf16>
  // CHECK: clip_coefficient %[[SHORT]] to %limit as_torch format<bf16>
  %k = clip_coefficient %short to %limit as_torch format<bf16>
  // CHECK: %[[BOUND:.*]] = percentile %past with %[[NORM]] at %limit
  %bound = percentile %past with %n at %limit
  // CHECK: clip_coefficient %[[NORM]] to %[[BOUND]]
  %j = clip_coefficient %n to %bound
  %each = norm l1 %x over tensor
  // CHECK: across %{{.*}}
  %sum = across %each
  // CHECK: across max %{{.*}}
  %most = across max %each
  // CHECK: all_reduce %{{.*}} as "rule.0" : f32
  %joined = all_reduce %most as "rule.0" : f32
  %all = arith.addf %sum, %most : f32
  %two = arith.addf %j, %k : f32
  %both = arith.addf %two, %all : f32
  commit always %n to %past : f32, %both to %c : f32
}
