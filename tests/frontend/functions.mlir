// Every function.
// RUN: altgrad-opt --print-rule %s | FileCheck %s
rule functions(param w, grad g, state m, unit s, step t, lr = 1e-3, bits = 2.0)
  // CHECK: math.sqrt %g : f32
  // CHECK: math.absf %g : f32
  // CHECK: math.floor %g : f32
  simple = sqrt(g) + abs(g) + floor(g)
  // CHECK: math.log %lr : f64
  // CHECK: math.exp %{{.*}} : f64
  scalar = exp(log(lr))
  // CHECK: %[[ZERO:.*]] = constant 0.000000e+00 : f32
  // CHECK: %[[SOME:.*]] = cmpf one, %g, %[[ZERO]] : f32
  // CHECK: %[[ONE:.*]] = constant 1.000000e+00 : f32
  // CHECK: %[[SIGNED:.*]] = math.copysign %[[ONE]], %g : f32
  // CHECK: select %[[SOME]], %[[SIGNED]], %[[ZERO]] : f32
  signed = sign(g)
  // CHECK: minimumf %w, %g : f32
  // CHECK: maximumf %w, %g : f32
  ends = minimum(w, g) + maximum(w, g)
  // CHECK: math.copysign %w, %g : f32
  // CHECK: %[[LOW:.*]] = maximumf %g, %m : f32
  // CHECK: minimumf %[[LOW]], %w : f32
  bounded = copysign(w, g) + clamp(g, m, w)
  // CHECK: math.fma %w, %g, %m : f32
  // CHECK: altgrad.lerp %w to %g by %m : f32
  // CHECK: %[[CHOICE:.*]] = cmpf olt, %w, %g : f32
  // CHECK: select %[[CHOICE]], %w, %g : f32
  three = fma(w, g, m) + lerp(w, g, m) + where(w < g, w, g)
  // CHECK: %[[BINADE:.*]] = altgrad.binade %w : f32
  // CHECK: %[[BITS:.*]] = fptosi %bits : f64 to i64
  // CHECK: %[[HALF:.*]] = constant 5.000000e-01 : f64
  // CHECK: math.fpowi %[[HALF]], %[[BITS]] : f64, i64
  grid = binade(w) * 0.5^int(bits)
  // CHECK: altgrad.row_mean_square %g : f32
  // CHECK: altgrad.match_norm %g as %w : f32
  s = maximum(f32(s), row_mean_square(g))
  m = match_norm(g, w)
  // CHECK: altgrad.apply_step %w along %{{.*}} rate(%lr) decay(%{{.*}}) : f32
  w = descend(w, m, lr, 0.0)

// Functions in f32: an element as it is, and what is below elements rounded in front of it.
// CHECK-LABEL: altgrad.rule @elements
rule elements(param w, grad g, unit s, lr = 1e-3)
  // CHECK: %[[T:.*]] = math.tanh %g : f32
  // CHECK: %[[E:.*]] = math.exp %[[T]] : f32
  a = exp(tanh(g))
  // CHECK: %[[P:.*]] = math.powf %g, %[[T]] : f32
  b = g^tanh(g)
  // CHECK: %[[R:.*]] = truncf %lr : f64 to f32
  // CHECK: %[[Q:.*]] = altgrad.sigmoid %[[R]] : f32
  // CHECK: extf %[[Q]] : f32 to f64
  s = sigmoid(lr) * s
  w = w - a * b
