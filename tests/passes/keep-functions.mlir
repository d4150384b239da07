// RUN: altgrad-opt %s --altgrad-keep-functions --canonicalize | FileCheck %s
// RUN: altgrad-opt %s --altgrad-keep-functions --canonicalize > %t
// RUN: altgrad-opt %t --altgrad-keep-functions --canonicalize | diff %t -

// MLIR evaluates functions of constants by this machine's C library. Kept functions wait for altgrad-lower-numerics, which
// has the same bits everywhere; what every machine rounds alike is evaluated.
// CHECK-LABEL: @constants
altgrad.step @constants(in %g: !altgrad.tensors<f32>, out %a: f32, out %b: f32, out %c: f32, out %d: f64, out %e: f32) {
  // CHECK-DAG: %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
  // CHECK-DAG: %[[FOUR:.*]] = arith.constant 4.000000e+00 : f64
  %four = arith.constant 4.0 : f32
  %two = math.sqrt %four : f32
  %wide = arith.extf %four : f32 to f64
  // CHECK: %[[EXP:.*]] = function "math.exp"(%[[TWO]]) : (f32) -> f32
  %exp = math.exp %two : f32
  // CHECK: %[[POWER:.*]] = function "math.powf"(%[[EXP]], %[[TWO]]) : (f32, f32) -> f32
  %power = math.powf %exp, %two : f32
  // CHECK: %[[SIGN:.*]] = function "math.copysign"(%[[TWO]], %[[POWER]]) : (f32, f32) -> f32
  %sign = math.copysign %two, %power : f32
  // CHECK: %[[LOG:.*]] = function "math.log"(%[[FOUR]]) : (f64) -> f64
  %log = math.log %wide : f64
  // CHECK: sigmoid %[[TWO]] : f32
  %sigmoid = altgrad.sigmoid %two : f32
  commit always %exp to %a : f32, %power to %b : f32, %sign to %c : f32, %log to %d : f64, %sigmoid to %e : f32
}
