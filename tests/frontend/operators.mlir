// How tightly operators bind, from the loosest on, and in which order operands are made.
// RUN: altgrad-opt --print-rule %s | FileCheck %s
rule operators(param w, grad g, state m, step t, lr = 1e-3, option a b)
  // CHECK: %[[MW:.*]] = mulf %m, %g : f32
  // CHECK: %[[SUM:.*]] = addf %w, %[[MW]] : f32
  // CHECK: subf %[[SUM]], %m : f32
  sums = w + m * g - m
  // CHECK: %[[Q:.*]] = divf %w, %g : f32
  // CHECK: divf %[[Q]], %m : f32
  quotients = w / g / m
  // CHECK: %[[SQ:.*]] = mulf %g, %g : f32
  // CHECK: negf %[[SQ]] : f32
  minus = -g^2
  // CHECK: %[[NEG:.*]] = negf %g : f32
  // CHECK: mulf %[[NEG]], %[[NEG]] : f32
  plus = (-g)^2
  // CHECK: %[[NINE:.*]] = constant 9 : i64
  // CHECK: math.fpowi %lr, %[[NINE]] : f64, i64
  tower = lr^3^2
  // CHECK: %[[T:.*]] = math.fpowi %lr, %t : f64, i64
  // CHECK: math.sqrt %lr : f64
  // CHECK: %[[LOG:.*]] = math.log %lr : f64
  // CHECK: %[[SCALED:.*]] = mulf %{{.*}}, %[[LOG]] : f64
  // CHECK: math.exp %[[SCALED]] : f64
  powers = lr^t + lr^0.5 + lr^-0.8
  // CHECK: %[[ROOT:.*]] = math.sqrt %g : f32
  // CHECK: mulf %g, %[[ROOT]] : f32
  half = g^1.5
  // CHECK: %[[L:.*]] = cmpf olt, %w, %g : f32
  // CHECK: %[[TRUE:.*]] = constant true
  // CHECK: %[[NOT:.*]] = xori %b, %[[TRUE]] : i1
  // CHECK: %[[AND:.*]] = andi %[[L]], %[[NOT]] : i1
  // CHECK: %[[OR:.*]] = ori %a, %[[AND]] : i1
  // CHECK: %[[FIRST:.*]] = select %b, %g, %m : f32
  // CHECK: select %[[OR]], %w, %[[FIRST]] : f32
  choice = w if a or w < g and not b else g if b else m
  // CHECK: cmpf une, %w, %g : f32
  // CHECK: cmpf oeq, %w, %g : f32
  // CHECK: cmpf ole, %w, %g : f32
  // CHECK: cmpf ogt, %w, %g : f32
  // CHECK: cmpf oge, %w, %g : f32
  compared = w != g and w == g and w <= g and w > g and w >= g
  // t - floor(t / 4) * 4
  // CHECK: math.floor
  // CHECK: mulf
  // CHECK: subf
  // CHECK: cmpf oeq, %{{.*}}, %{{.*}} : f64
  now = t % 4 == 0
  m = m + g
  w = w - lr * m
