// RUN: altgrad-opt %s --altgrad-sweeps --altgrad-vectorize="width=8" | FileCheck %s
// A block's reduction needs no sweep of its own, and what it decides stays inside.

// CHECK-LABEL: @scaled
altgrad.step @scaled(inout %w: !altgrad.tensors<bf16>, inout %top: !altgrad.tensors<f32 per 1x32>) {
  // CHECK: sweep @update load(%[[W:.*]] from %w : !altgrad.tensors<bf16>, %[[T:.*]] from %top : !altgrad.tensors<f32 per 1x32>) reduce() store(%w : !altgrad.tensors<bf16>, %top : !altgrad.tensors<f32 per 1x32>) {
  // CHECK: %[[M:.*]] = reduce max %{{.*}} over block<1x32> : f32
  // CHECK: arith.maximumf %[[M]], %{{.*}} : f32
  // CHECK: wide 8
  // CHECK: %[[V:.*]] = reduce max %{{.*}} over block<1x32> : vector<8xf32>
  // CHECK: arith.maximumf %[[V]], %{{.*}} : vector<8xf32>
  // CHECK-NOT: sweep
  %wr = dequantize %w : !altgrad.tensors<bf16>
  %tr = dequantize %top : !altgrad.tensors<f32 per 1x32>
  %x = element %wr
  %t = element %tr
  %m = reduce max %x over block<1x32> : f32
  %n = arith.maximumf %m, %t : f32
  %y = arith.divf %x, %n : f32
  %yl = collect %y : f32 to !altgrad.reals
  %yq = quantize %yl round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  %nl = collect %n : f32 to !altgrad.reals
  commit always %yq to %w : !altgrad.tensors<bf16>, %nl to %top : !altgrad.tensors<f32 per 1x32>
}
