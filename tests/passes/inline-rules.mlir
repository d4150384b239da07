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
  %w1, %sum1 = update @sums param(%x) grad(%g) state() scalar(%sum) hyper(%lr)
  // CHECK: commit always
  // CHECK: %[[SUM]] to %sum : f32
  commit always %w1 to %w : !altgrad.tensors<f32>, %sum1 to %sum : f32
}

// A sum over the step is of all sets that the rule is applied to, and stands before whoever reads it.
altgrad.rule @distance(param %w: f32, grad %g: f32, state %d: f64 per step) {
  %sum = altgrad.reduce sumsq %g over step : f32
  %wide = extf %sum : f32 to f64
  %d1 = addf %d, %wide : f64
  %root = math.sqrt %sum : f32
  %step = divf %g, %root : f32
  %w1 = subf %w, %step : f32
  altgrad.yield param(%w1) state(%d1: f64)
}

// CHECK-LABEL: altgrad.step @of_two_sets
altgrad.step @of_two_sets(in %g: !altgrad.tensors<bf16>, inout %w: !altgrad.tensors<f32>,
                          in %h: !altgrad.tensors<f32> set 1, inout %x: !altgrad.tensors<f32> set 1, inout state %d: f64) {
  %a = dequantize %g : !altgrad.tensors<bf16>
  %b = dequantize %w : !altgrad.tensors<f32>
  %c = dequantize %h : !altgrad.tensors<f32>
  %e = dequantize %x : !altgrad.tensors<f32>
  // CHECK: %[[ONE:.*]] = reduce sumsq %{{.*}} over step : f32
  // CHECK: %[[OTHER:.*]] = reduce sumsq %{{.*}} over step : f32
  // CHECK: %[[SUM:.*]] = arith.addf %[[ONE]], %[[OTHER]] : f32
  // CHECK-COUNT-2: math.sqrt %[[SUM]] : f32
  %w1, %d1 = update @distance param(%b) grad(%a) state() scalar(%d: f64) hyper()
  %x1, %d2 = update @distance param(%e) grad(%c) state() scalar(%d: f64) hyper()
  commit always %w1 to %w : !altgrad.tensors<f32>, %x1 to %x : !altgrad.tensors<f32>, %d1 to %d : f64
}

// A sum over the step of a number of each tensor.
altgrad.rule @lengths(param %w: f32, grad %g: f32, state %d: f32 per step) {
  %own = altgrad.reduce sumsq %g over tensor : f32
  %length = math.sqrt %own : f32
  %sum = altgrad.reduce add %length over step : f32
  altgrad.yield param(%g) state(%sum)
}

// CHECK-LABEL: altgrad.step @of_lengths
altgrad.step @of_lengths(in %g: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<f32>, inout state %d: f32) {
  %a = dequantize %g : !altgrad.tensors<f32>
  %b = dequantize %w : !altgrad.tensors<f32>
  // CHECK: %[[LENGTH:.*]] = math.sqrt
  // CHECK: across %[[LENGTH]]
  %w1, %d1 = update @lengths param(%b) grad(%a) state() scalar(%d) hyper()
  commit always %w1 to %w : !altgrad.tensors<f32>, %d1 to %d : f32
}
