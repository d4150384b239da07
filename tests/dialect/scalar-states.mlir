// RUN: altgrad-opt %s | altgrad-opt | FileCheck %s
// States of a rule that are a number of a unit, of a tensor or of the step, and inputs.

// CHECK: altgrad.rule @numbers(param %w: f32, grad %g: f32, state %u: f32 per unit, state %s: f64 per tensor = 2.000000e+00, state %k: i64 per step, hyper %beta: f64 per step = 9.000000e-01)
altgrad.rule @numbers(param %w: f32, grad %g: f32, state %u: f32 per unit, state %s: f64 per tensor = 2.0,
                      state %k: i64 per step, hyper %beta: f64 per step = 0.9) {
  %one = constant 1 : i64
  %k1 = addi %k, %one : i64
  %of_unit = altgrad.reduce add %g over unit : f32
  %of_tensor = altgrad.reduce sumsq %g over tensor : f32
  %wide = extf %of_tensor : f32 to f64
  %s1 = mulf %wide, %beta : f64
  // CHECK: altgrad.yield param(%w) state(%{{.*}}, %{{.*}}: f64, %{{.*}}: i64)
  altgrad.yield param(%w) state(%of_unit, %s1: f64, %k1: i64)
}

// The older spelling of a state of units.
// CHECK: altgrad.rule @older(param %w: f32, grad %g: f32, state %u: f32 per unit)
altgrad.rule @older(param %w: f32, grad %g: f32, unit_state %u: f32) {
  altgrad.yield param(%w) state(%u)
}

// CHECK-LABEL: altgrad.step @apply(
// CHECK: inout state %k: i64 = 1.000000e+00
altgrad.step @apply(inout %w: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>, inout state %u: f32 per_unit,
                    inout state %s: f64 per_tensor, inout state %k: i64 = 1.0, in hyper %beta: f64) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %g : !altgrad.tensors<f32>
  // CHECK: update @numbers param(%{{.*}}) grad(%{{.*}}) state() scalar(%u, %s: f64, %k: i64) hyper(%beta)
  %x1, %u1, %s1, %k1 = update @numbers param(%x) grad(%y) state() scalar(%u, %s: f64, %k: i64) hyper(%beta)
  commit always %x1 to %w : !altgrad.tensors<f32>, %u1 to %u : f32, %s1 to %s : f64, %k1 to %k : i64
}

// CHECK: altgrad.rule @damped(param %w: f32, grad %g: f32, input %h: f32)
altgrad.rule @damped(param %w: f32, grad %g: f32, input %h: f32) {
  %w1 = mulf %w, %h : f32
  altgrad.yield param(%w1) state()
}

// CHECK-LABEL: altgrad.step @apply_input(
altgrad.step @apply_input(inout %w: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>,
                          in input %h: !altgrad.tensors<bf16>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %g : !altgrad.tensors<f32>
  %z = dequantize %h : !altgrad.tensors<bf16>
  // CHECK: update @damped param(%{{.*}}) grad(%{{.*}}) state() hyper() input(%{{.*}})
  %x1 = update @damped param(%x) grad(%y) state() hyper() input(%z)
  commit always %x1 to %w : !altgrad.tensors<f32>
}
