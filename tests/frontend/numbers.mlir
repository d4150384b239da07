// Numbers of tensors and of the step, and inputs.
// RUN: altgrad-opt --print-rule %s | FileCheck %s
// CHECK-LABEL: altgrad.rule @numbers(param %w: f32, grad %g: f32, input %h: f32, state %s: f64 per tensor = 2.000000e+00, state %d: f64 per step = 2.500000e-01, state %k: f64 per step, hyper %lr: f64 = 1.000000e+00, hyper %beta: f64 per step = 9.000000e-01)
rule numbers(param w, grad g, input h, scalar s = 2.0, global d = 0.25, k, lr = 1.0, beta = 0.9)
  // CHECK: %[[ONE:.*]] = constant 1.000000e+00 : f64
  // CHECK: %[[K:.*]] = addf %k, %[[ONE]] : f64
  k = k + 1
  // CHECK: %[[OLD:.*]] = mulf %beta, %d : f64
  // CHECK: %[[RATE:.*]] = truncf %lr : f64 to f32
  // CHECK: %[[A:.*]] = mulf %[[RATE]], %g : f32
  // CHECK: %[[SUM:.*]] = altgrad.reduce add %[[A]] over step : f32
  // CHECK: %[[WIDE:.*]] = extf %[[SUM]] : f32 to f64
  // CHECK: %[[D:.*]] = addf %[[OLD]], %[[WIDE]] : f64
  d = beta * d + sum(lr * g over step)
  // CHECK: %[[MOST:.*]] = altgrad.reduce max %g over tensor : f32
  s = max(g)
  // CHECK: mulf %g, %h : f32
  w = w - d * (g * h)
  // CHECK: %[[S:.*]] = extf %[[MOST]] : f32 to f64
  // CHECK: altgrad.yield param(%{{.*}}) state(%[[S]]: f64, %[[D]]: f64, %[[K]]: f64)
