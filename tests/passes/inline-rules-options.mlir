// RUN: altgrad-opt %s --altgrad-inline-rules | FileCheck %s --implicit-check-not=andi --implicit-check-not=ori

// Choices that options decide leave no select, nor logic on options.
altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32, hyper %h: f64, option %down: i1 = false,
                option %keep: i1 = false, option %fix: i1 = true) {
  %minus = negf %g : f32
  %g0 = select %down, %minus, %g : f32
  %sum = addf %m, %g0 : f32
  %some = cmpf ogt, %h, %h : f64
  %any = ori %some, %fix : i1
  %both = andi %keep, %any : i1
  %m1 = select %both, %sum, %m : f32
  %dir = select %both, %m1, %g0 : f32
  %w1 = subf %w, %dir : f32
  %up = cmpf ogt, %w1, %w : f32
  %w2 = select %up, %w1, %g0 : f32
  altgrad.yield param(%w2) state(%m1)
}

// CHECK-LABEL: @off
altgrad.step @off(inout %w: !altgrad.tensors<f32>, in %h: f64) {
  %x = dequantize %w : !altgrad.tensors<f32>
  // The state does not change, so it is not stored.
  // CHECK: %[[W:.*]] = element %0
  // CHECK: %[[G:.*]] = element %0
  // CHECK-NEXT: %[[W1:.*]] = arith.subf %[[W]], %[[G]] : f32
  // A choice between elements stays.
  // CHECK-NEXT: %[[UP:.*]] = arith.cmpf ogt, %[[W1]], %[[W]] : f32
  // CHECK-NEXT: %[[W2:.*]] = arith.select %[[UP]], %[[W1]], %[[G]] : f32
  // CHECK-NEXT: %[[NEW:.*]] = collect %[[W2]]
  // CHECK-NEXT: commit always
  // CHECK-NEXT: %[[NEW]] to %w
  %w1 = update @r param(%x) grad(%x) state() hyper(%h)
  commit always %w1 to %w : !altgrad.tensors<f32>
}

// CHECK-LABEL: @on
altgrad.step @on(inout %w: !altgrad.tensors<f32>, inout %m: !altgrad.tensors<f32>, in %h: f64) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %m : !altgrad.tensors<f32>
  // CHECK: %[[MINUS:.*]] = arith.negf
  // CHECK-NEXT: %[[M1:.*]] = arith.addf %[[M:.*]], %[[MINUS]] : f32
  // CHECK-NEXT: %[[W1:.*]] = arith.subf %{{.*}}, %[[M1]] : f32
  // CHECK-NEXT: arith.cmpf ogt, %[[W1]]
  // CHECK-NEXT: arith.select
  // CHECK-NEXT: collect
  // CHECK-NEXT: collect %[[M1]]
  %w1, %m1 = update @r {down, keep} param(%x) grad(%x) state(%y) hyper(%h)
  commit always %w1 to %w : !altgrad.tensors<f32>, %m1 to %m : !altgrad.tensors<f32>
}
