// RUN: altgrad-opt %s --verify-roundtrip | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s

altgrad.rule @momentum(param %w: f32, grad %g: f32, state %m: f32, state %peak: f32,
                       hyper %lr: f64, step %t: i64, option %keep: i1 = false) {
  %m1 = addf %m, %g : f32
  %top = maximumf %peak, %m1 : f32
  %peak1 = select %keep, %top, %peak : f32
  altgrad.yield param(%m1) state(%m1, %peak1)
}

// A state that the options leave unchanged is no operand and no result.
// CHECK-LABEL: altgrad.step @train
altgrad.step @train(in %grads: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<f32>,
                    in %lr: f64, in %t: i64) {
  %g = dequantize %grads : !altgrad.tensors<f32>
  %x = dequantize %w : !altgrad.tensors<f32>
  // CHECK: %[[W:.*]], %[[M:.*]] = update @momentum param(%{{.*}}) grad(%{{.*}}) state(%{{.*}}) hyper(%lr) step(%t)
  %w1, %m1 = update @momentum param(%x) grad(%g) state(%x) hyper(%lr) step(%t)
  // CHECK: %[[V:.*]], %{{.*}}:2 = update @momentum {keep} param(%[[W]]) grad(%{{.*}}) state(%[[M]], %[[M]]) hyper(%lr) step(%t)
  %w2, %m2, %p2 = update @momentum {keep} param(%w1) grad(%g) state(%m1, %m1) hyper(%lr) step(%t)
  // A rule that is not in the module may be found on the rule path later.
  // CHECK: update @elsewhere {nesterov, maximize} param(%[[V]]) grad(%{{.*}}) state() hyper(){{$}}
  %w3 = update @elsewhere {nesterov, maximize} param(%w2) grad(%g) state() hyper()
  commit always %w3 to %w : !altgrad.tensors<f32>
}
