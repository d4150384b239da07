// Numbers below elements are f64; what meets an element is rounded once, and what is equal is computed once.
// RUN: altgrad-opt --print-rule %s | FileCheck %s
// CHECK-LABEL: altgrad.rule @levels(param %w: f32, grad %g: f32, state %m: f32, state %s: f32 per unit, step %t: i64, hyper %lr: f64 = 1.000000e-03, hyper %b: f64 = 9.000000e-01)
rule levels(param w, grad g, state m, unit s, step t, lr = 1e-3, b = 0.9)
  // CHECK: %[[ONE:.*]] = constant 1.000000e+00 : f64
  // CHECK: %[[REST:.*]] = subf %[[ONE]], %b : f64
  // CHECK: %[[GAIN:.*]] = truncf %[[REST]] : f64 to f32
  // CHECK: %[[M:.*]] = altgrad.lerp %m to %g by %[[GAIN]] : f32
  m = lerp(m, g, 1 - b)
  // An element before a number is rounded before it: two products of elements.
  // CHECK: %[[TWO:.*]] = constant 2.000000e+00 : f32
  // CHECK: %[[A:.*]] = mulf %[[TWO]], %g : f32
  // CHECK: %[[RATE:.*]] = truncf %lr : f64 to f32
  // CHECK: mulf %[[A]], %[[RATE]] : f32
  late = 2 * g * lr
  // CHECK: %[[WIDE:.*]] = constant 2.000000e+00 : f64
  // CHECK: %[[BOTH:.*]] = mulf %lr, %[[WIDE]] : f64
  // CHECK: %[[ROUNDED:.*]] = truncf %[[BOTH]] : f64 to f32
  // CHECK: mulf %[[ROUNDED]], %g : f32
  early = lr * 2 * g
  // Whole numbers stay whole; a number with a point makes none of them.
  // CHECK: %[[I:.*]] = constant 1 : i64
  // CHECK: %[[PAST:.*]] = subi %t, %[[I]] : i64
  // CHECK: cmpi eq, %[[PAST]], %[[I]] : i64
  // CHECK: %[[T:.*]] = sitofp %t : i64 to f64
  // CHECK: subf %[[T]], %[[ONE]] : f64
  second = t - 1 == 1
  point = t - 1.0
  // A number of the unit is f64 until it meets an element, and f32(x) is rounded as beside one.
  // CHECK: %[[SUM:.*]] = altgrad.reduce sumsq %g over unit : f32
  // CHECK: %[[S:.*]] = extf %s : f32 to f64
  // CHECK: %[[Q:.*]] = extf %[[SUM]] : f32 to f64
  // CHECK: %[[NEW:.*]] = altgrad.lerp %[[S]] to %[[Q]] by %[[REST]] : f64
  // CHECK: altgrad.lerp %{{.*}} to %[[SUM]] by %[[GAIN]] : f32
  s = lerp(s, sumsq(g over unit), 1 - b)
  single = lerp(f32(0.0), sumsq(g over unit), 1 - b)
  // CHECK: mulf %[[RATE]], %{{.*}} : f32
  w = w - lr * m
  // CHECK: altgrad.yield param(%{{.*}}) state(%[[M]], %{{.*}})
