// RUN: altgrad-opt %s --altgrad-sweeps --altgrad-vectorize="width=8" | FileCheck %s
// The index is found in each sweep again; what a tensor alone decides comes before them.

// CHECK-LABEL: @noise
altgrad.step @noise(inout %w: !altgrad.tensors<f32>, out %n: f32) {
  // CHECK: %[[K:.*]] = tag : i64
  // CHECK-NEXT: %[[C:.*]] = dim columns : i64
  // CHECK-NEXT: %[[KC:.*]] = arith.muli %[[K]], %[[C]] : i64
  // CHECK-NEXT: sweep @reduce0 load() reduce(max over step)
  // CHECK-NEXT: %[[I:.*]] = index : i64
  // CHECK-NEXT: arith.xori %[[I]], %[[KC]] : i64
  // CHECK: } wide 8 () {
  // CHECK-NEXT: %[[V:.*]] = index : vector<8xi64>
  // CHECK-NEXT: %[[ALL:.*]] = vector.broadcast %[[KC]] : i64 to vector<8xi64>
  // CHECK-NEXT: arith.xori %[[V]], %[[ALL]] : vector<8xi64>
  // CHECK: sweep @update1 load(%{{.*}} from %w : !altgrad.tensors<f32>)
  // CHECK: index : i64
  // CHECK: wide 8
  // CHECK: index : vector<8xi64>
  %list = dequantize %w : !altgrad.tensors<f32>
  %x = element %list
  %i = index : i64
  %k = tag : i64
  %c = dim columns : i64
  %kc = arith.muli %k, %c : i64
  %h = arith.xori %i, %kc : i64
  %f = arith.sitofp %h : i64 to f32
  %most = reduce max %f over step : f32
  %s = arith.divf %f, %most : f32
  %y = arith.addf %x, %s : f32
  %new = collect %y : f32 to !altgrad.reals
  commit always %new to %w : !altgrad.tensors<f32>, %most to %n : f32
}
