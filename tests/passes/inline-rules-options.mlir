// RUN: altgrad-opt %s --altgrad-inline-rules | FileCheck %s

// Choices that options decide leave no select.
altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32,
                option %down: i1 = false, option %keep: i1 = false) {
  %minus = negf %g : f32
  %g0 = select %down, %minus, %g : f32
  %sum = addf %m, %g0 : f32
  %m1 = select %keep, %sum, %m : f32
  %w1 = subf %w, %m1 : f32
  %up = cmpf ogt, %w1, %w : f32
  %w2 = select %up, %w1, %g0 : f32
  altgrad.yield param(%w2) state(%m1)
}

// CHECK-LABEL: @off
altgrad.step @off(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  // The state does not change, so it is not stored and counts as 0.
  // CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
  // CHECK-NOT: negf
  // CHECK-NOT: addf
  // CHECK: %[[W1:.*]] = arith.subf %[[X:.*]], %[[ZERO]] : f32
  // A choice between elements stays.
  // CHECK: %[[UP:.*]] = arith.cmpf ogt, %[[W1]], %[[X]] : f32
  // CHECK: %[[W2:.*]] = arith.select %[[UP]], %[[W1]], %{{.*}} : f32
  // CHECK: %[[NEW:.*]] = collect %[[W2]]
  // CHECK-NOT: collect
  %w1 = update @r param(%x) grad(%x) state() hyper()
  // CHECK: commit always
  // CHECK-NEXT: %[[NEW]] to %w
  commit always %w1 to %w : !altgrad.tensors<f32>
}

// CHECK-LABEL: @on
altgrad.step @on(inout %w: !altgrad.tensors<f32>, inout %m: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %m : !altgrad.tensors<f32>
  // CHECK: %[[MINUS:.*]] = arith.negf
  // CHECK: %[[M1:.*]] = arith.addf %[[M:.*]], %[[MINUS]] : f32
  // CHECK-NOT: select
  // CHECK: arith.subf %{{.*}}, %[[M1]] : f32
  // CHECK: arith.select
  // CHECK: collect
  // CHECK: collect %[[M1]]
  %w1, %m1 = update @r {down, keep} param(%x) grad(%x) state(%y) hyper()
  commit always %w1 to %w : !altgrad.tensors<f32>, %m1 to %m : !altgrad.tensors<f32>
}
