// RUN: altgrad-opt %s --altgrad-sweeps | FileCheck %s
// Numbers can wait in the workspace, choices cannot: %up is wanted after the sum, so
// what it is made of is not overwritten before.

// CHECK-LABEL: @later
altgrad.step @later(inout %a: !altgrad.tensors<f32>, in %p: !altgrad.tensors<f32>, in %q: !altgrad.tensors<f32>,
                    in %r: !altgrad.tensors<f32>, out %b: !altgrad.tensors<f32>, out %c: !altgrad.tensors<f32>) {
  // CHECK: sweep @update0 load(
  // CHECK-SAME: reduce(add over step) store(%c : !altgrad.tensors<f32>) {
  // CHECK: sweep @update1 load(
  // CHECK-SAME: reduce() store(%a : !altgrad.tensors<f32>, %b : !altgrad.tensors<f32>) {
  // CHECK: %[[UP:.*]] = arith.cmpf ogt
  // CHECK: arith.select %[[UP]]
  %al = dequantize %a : !altgrad.tensors<f32>
  %pl = dequantize %p : !altgrad.tensors<f32>
  %ql = dequantize %q : !altgrad.tensors<f32>
  %rl = dequantize %r : !altgrad.tensors<f32>
  %x = element %al
  %pe = element %pl
  %qe = element %ql
  %re = element %rl
  %pq = arith.addf %pe, %qe : f32
  %pqr = arith.addf %pq, %re : f32
  %all = arith.addf %pqr, %x : f32
  %up = arith.cmpf ogt, %all, %x : f32
  %sum = reduce add %all over step : f32
  %square = arith.mulf %all, %all : f32
  %scaled = arith.mulf %square, %sum : f32
  %one = arith.select %up, %scaled, %sum : f32
  %a1 = collect %square : f32 to !altgrad.reals
  %b1 = collect %one : f32 to !altgrad.reals
  %c1 = collect %all : f32 to !altgrad.reals
  commit always %a1 to %a : !altgrad.tensors<f32>, %b1 to %b : !altgrad.tensors<f32>,
      %c1 to %c : !altgrad.tensors<f32>
}
