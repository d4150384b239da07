// RUN: altgrad-opt %s --altgrad-inline-rules | FileCheck %s

// CHECK-NOT: altgrad.rule
altgrad.rule @momentum(param %w: f32, grad %g: f32, state %m: f32,
                       hyper %lr: f64, step %t: i64) {
  %m1 = addf %m, %g : f32
  %count = sitofp %t : i64 to f64
  %part = divf %lr, %count : f64
  %rate = truncf %part : f64 to f32
  %dw = mulf %rate, %m1 : f32
  %w1 = subf %w, %dw : f32
  altgrad.yield param(%w1) state(%m1)
}

// Each role becomes the operand given for it, each result a list of its element.
// CHECK-LABEL: altgrad.step @train
altgrad.step @train(in %grads: !altgrad.tensors<bf16>, inout %w: !altgrad.tensors<f32>,
                    inout %m: !altgrad.tensors<f32>, in %lr: f64, in %t: i64) {
  %g = dequantize %grads : !altgrad.tensors<bf16>
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %m : !altgrad.tensors<f32>
  // CHECK-DAG: %[[W:.*]] = element %1
  // CHECK-DAG: %[[G:.*]] = element %0
  // CHECK-DAG: %[[M:.*]] = element %2
  // CHECK: %[[M1:.*]] = arith.addf %[[M]], %[[G]] : f32
  // CHECK: %[[COUNT:.*]] = arith.sitofp %t : i64 to f64
  // CHECK: arith.divf %lr, %[[COUNT]] : f64
  // CHECK: %[[W1:.*]] = arith.subf %[[W]], %{{.*}} : f32
  // CHECK: %[[NEW:.*]] = collect %[[W1]] : f32 to !altgrad.reals
  // CHECK: %[[STATE:.*]] = collect %[[M1]] : f32 to !altgrad.reals
  %w1, %m1 = update @momentum param(%x) grad(%g) state(%y) hyper(%lr) step(%t)
  // CHECK: commit always
  // CHECK-NEXT: %[[NEW]] to %w
  // CHECK-NEXT: %[[STATE]] to %m
  commit always %w1 to %w : !altgrad.tensors<f32>, %m1 to %m : !altgrad.tensors<f32>
}

// What only the new value of a unit's state uses is used.
altgrad.rule @sums(param %w: f32, grad %g: f32, unit_state %sum: f32, hyper %lr: f64) {
  %sum1 = altgrad.reduce add %g over unit : f32
  altgrad.yield param(%w) state(%sum1)
}

// CHECK-LABEL: altgrad.step @watch
altgrad.step @watch(in %grads: !altgrad.tensors<bf16>, inout %w: !altgrad.tensors<f32>,
                    inout state %sum: f32 per_unit, in %lr: f64) {
  %g = dequantize %grads : !altgrad.tensors<bf16>
  %x = dequantize %w : !altgrad.tensors<f32>
  // CHECK: %[[SUM:.*]] = reduce add %{{.*}} over unit : f32
  %w1, %sum1 = update @sums param(%x) grad(%g) state() unit(%sum) hyper(%lr)
  // CHECK: commit always
  // CHECK: %[[SUM]] to %sum : f32
  commit always %w1 to %w : !altgrad.tensors<f32>, %sum1 to %sum : f32
}
