// RUN: altgrad-opt %s --altgrad-expand-gradients | FileCheck %s

// torch: grows when the tracker is equal to the interval, and not to an infinity.
// CHECK-LABEL: @torch
altgrad.step @torch(inout scale %s: f32, inout scaler %n: i64, inout scaler %left: i64, in flag %f: f32,
                    in scaler %every: i64, in scaler %times: i64, in scaler %up: f64,
                    in scaler %down: f64, in scaler %least: f64, in scaler %most: f64) {
  %none = arith.constant 0.0 : f32
  // CHECK: %[[FOUND:.*]] = arith.cmpf une, %f
  %found = arith.cmpf une, %f, %none : f32
  // CHECK: %[[LEFT:.*]] = arith.subi %left
  // CHECK: %[[LOWER:.*]] = arith.mulf %{{.*}}, %down : f64
  // CHECK: arith.cmpf olt, %[[LOWER]], %least : f64
  // CHECK: %[[COUNTED:.*]] = arith.addi %n
  // CHECK: %[[FULL:.*]] = arith.cmpi eq, %[[COUNTED]], %every : i64
  // CHECK: %[[HIGHER:.*]] = arith.mulf %{{.*}}, %up : f64
  // CHECK: arith.cmpf ogt, %[[HIGHER]], %most : f64
  // CHECK: arith.cmpf olt, %{{.*}}, %{{.*}} : f32
  // CHECK: arith.select %[[FULL]], %times, %left : i64
  // CHECK: %[[S1:.*]] = arith.select %[[FOUND]]
  // CHECK: commit always
  // CHECK-NEXT: %[[S1]] to %s : f32
  %s1, %n1, %left1 = update_loss_scale<torch> %s if %found tracker(%n every %every)
      hysteresis(%left of %times) growth(%up) backoff(%down) limits(%least, %most)
  commit always %s1 to %s : f32, %n1 to %n : i64, %left1 to %left : i64
}

// boostr: grows at the interval or beyond it, to whatever the product is.
// CHECK-LABEL: @boostr
altgrad.step @boostr(inout scale %s: f32, in scaler %n: i64, in scaler %left: i64, in flag %f: f32,
                     in scaler %every: i64, in scaler %up: f64) {
  %none = arith.constant 0.0 : f32
  %wide = arith.constant 0.0 : f64
  %found = arith.cmpf une, %f, %none : f32
  // CHECK: arith.cmpi sge, %{{.*}}, %every : i64
  // CHECK-NOT: math.absf
  %s1, %n1, %left1 = update_loss_scale<boostr> %s if %found tracker(%n every %every)
      hysteresis(%left of %left) growth(%up) backoff(%up) limits(%wide, %wide)
  commit always %s1 to %s : f32
}
