// RUN: altgrad-opt %s --altgrad-hoist-uniform | FileCheck %s

// What scalars alone decide leaves the element loop; two sweeps share it.
// CHECK-LABEL: @hoist
altgrad.step @hoist(inout %w: !altgrad.tensors<f32>, out %s: f32, in %lr: f64, in %t: i64) {
  // CHECK: %[[POWER:.*]] = math.fpowi %lr, %t : f64, i64
  // CHECK-NEXT: %[[RATE:.*]] = arith.truncf %[[POWER]] : f64 to f32
  // CHECK-NEXT: %[[SUM:.*]] = sweep @one
  // CHECK-NEXT: arith.mulf %{{.*}}, %[[RATE]] : f32
  // CHECK-NEXT: emit
  %x = sweep @one load(%p from %w : !altgrad.tensors<f32>) reduce(add over step) store() {
    %power = math.fpowi %lr, %t : f64, i64
    %rate = arith.truncf %power : f64 to f32
    %y = arith.mulf %p, %rate : f32
    emit %y : f32
  }
  // A result of the first sweep is uniform in the second.
  // CHECK: %[[BOTH:.*]] = arith.mulf %[[RATE]], %[[SUM]] : f32
  // CHECK-NEXT: sweep @two
  // CHECK-NEXT: %[[Y:.*]] = arith.mulf %{{.*}}, %[[BOTH]] : f32
  // CHECK-NEXT: emit %[[Y]]
  sweep @two load(%p from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    %power = math.fpowi %lr, %t : f64, i64
    %rate = arith.truncf %power : f64 to f32
    %both = arith.mulf %rate, %x : f32
    %y = arith.mulf %p, %both : f32
    emit %y : f32
  }
  commit always %x to %s : f32
}
