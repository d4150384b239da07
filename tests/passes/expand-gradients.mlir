// RUN: altgrad-opt %s --altgrad-expand-gradients | FileCheck %s

// Finite is asked of the code before the product; values get a factor only.
// CHECK-LABEL: @unscale
altgrad.step @unscale(in %grads: !altgrad.tensors<bf16>, inout %w: !altgrad.tensors<f32>, in %k: f32) {
  // CHECK: %[[C:.*]] = load %grads : !altgrad.tensors<bf16>
  // CHECK: %[[X:.*]] = decode %[[C]] format<bf16> : i16 to f32
  // CHECK: %[[A:.*]] = math.absf %[[X]] : f32
  // CHECK: %[[INF:.*]] = arith.constant 0x7F800000 : f32
  // CHECK: %[[FINE:.*]] = arith.cmpf olt, %[[A]], %[[INF]] : f32
  // CHECK: %[[ALL:.*]] = reduce and %[[FINE]] over step : i1
  // CHECK: %[[G:.*]] = collect %[[X]] by %k : f32 to !altgrad.reals
  %g, %finite = unscale %grads by %k : !altgrad.tensors<bf16>
  // CHECK: commit if %[[ALL]]
  // CHECK-NEXT: %[[G]] to %w
  commit if %finite %g to %w : !altgrad.tensors<f32>
}

// Nobody asks whether all are finite: no reduction.
// CHECK-LABEL: @unasked
altgrad.step @unasked(in %grads: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<f32>, in %k: f32) {
  // CHECK: %[[C:.*]] = load %grads
  // CHECK-NOT: reduce
  // CHECK: collect %[[C]] by %k
  %g, %finite = unscale %grads by %k : !altgrad.tensors<f32>
  commit always %g to %w : !altgrad.tensors<f32>
}

// Two lists share a norm; an unscaled list keeps one factor, the product of both.
// CHECK-LABEL: @clip
altgrad.step @clip(inout %a: !altgrad.tensors<f32>, inout %b: !altgrad.tensors<f32>,
                   in %k: f32, in %limit: f32) {
  // CHECK: %[[A:.*]] = load %a
  %x, %finite = unscale %a by %k : !altgrad.tensors<f32>
  %y = dequantize %b : !altgrad.tensors<f32>
  // CHECK: %[[SA:.*]] = reduce sumsq %{{.*}} over step : f32
  // CHECK: %[[SB:.*]] = reduce sumsq %[[Y:.*]] over step : f32
  // CHECK: %[[SUM:.*]] = arith.addf %[[SA]], %[[SB]] : f32
  // CHECK: %[[NORM:.*]] = math.sqrt %[[SUM]] : f32
  // CHECK: %[[TINY:.*]] = arith.constant 9.99999997E-7 : f32
  // CHECK: %[[MORE:.*]] = arith.addf %[[NORM]], %[[TINY]] : f32
  // CHECK: %[[RATIO:.*]] = arith.divf %limit, %[[MORE]] : f32
  // CHECK: %[[COEF:.*]] = arith.minimumf %[[RATIO]], %{{.*}} : f32
  // CHECK: %[[BOTH:.*]] = arith.mulf %k, %[[COEF]] : f32
  // CHECK: collect %[[A]] by %[[BOTH]]
  // CHECK: collect %{{.*}} by %[[COEF]]
  %x1, %y1, %norm = clip_by_global_norm %x, %y to %limit
  commit always %x1 to %a : !altgrad.tensors<f32>, %y1 to %b : !altgrad.tensors<f32>
}

// Magnitudes are added, or the largest is taken, which of nothing is 0; scale joins a
// factor that is there.
// CHECK-LABEL: @norms
altgrad.step @norms(inout %a: !altgrad.tensors<f32>, in %b: !altgrad.tensors<f32> set 1,
                    in %k: f32, out %sum: f32, out %each: f32 per_tensor set 0) {
  %x, %finite = unscale %a by %k : !altgrad.tensors<f32>
  %y = dequantize %b : !altgrad.tensors<f32>
  // CHECK: %[[X:.*]] = math.absf %{{.*}} : f32
  // CHECK: %[[SX:.*]] = reduce add %[[X]] over step : f32
  // CHECK: %[[Y:.*]] = math.absf %{{.*}} : f32
  // CHECK: %[[SY:.*]] = reduce add %[[Y]] over step : f32
  // CHECK: %[[SUM:.*]] = arith.addf %[[SX]], %[[SY]] : f32
  %n = norm l1 %x, %y over step
  // CHECK: %[[ZERO:.*]] = arith.constant 0.0
  // CHECK: %[[MX:.*]] = reduce absmax %{{.*}} over tensor : f32
  // CHECK: %[[MOST:.*]] = arith.maximumf %[[ZERO]], %[[MX]] : f32
  %m = norm linf %x over tensor
  // CHECK: %[[BOTH:.*]] = arith.mulf %k, %[[MOST]] : f32
  // CHECK: collect %{{.*}} by %[[BOTH]]
  %x1 = scale %x by %m
  // CHECK: %[[SUM]] to %sum
  commit always %n to %sum : f32, %m to %each : f32, %x1 to %a : !altgrad.tensors<f32>
}

// As clip_grad_norm_: the reciprocal times the bound, each result in the format.
// CHECK-LABEL: @as_torch
altgrad.step @as_torch(in %norm: f32, in %limit: f32, out %c: f32) {
  // CHECK: %[[MORE:.*]] = arith.addf %norm, %{{.*}} : f32
  // CHECK: %[[SUM:.*]] = round %[[MORE]] format<bf16>
  // CHECK: %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[SUM]] : f32
  // CHECK: %[[SHORT:.*]] = round %[[INVERSE]] format<bf16>
  // CHECK: %[[PRODUCT:.*]] = arith.mulf %[[SHORT]], %limit : f32
  // CHECK: %[[RATIO:.*]] = round %[[PRODUCT]] format<bf16>
  // CHECK: arith.minimumf %[[RATIO]], %{{.*}} : f32
  %k = clip_coefficient %norm to %limit as_torch format<bf16>
  // CHECK: arith.addf
  // CHECK-NOT: round
  // CHECK: arith.minimumf
  %j = clip_coefficient %norm to %limit as_torch format<f32>
  %both = arith.addf %j, %k : f32
  commit always %both to %c : f32
}

// A step of the way is one rounding, from the end that is nearer.
// CHECK-LABEL: @lerp
altgrad.step @lerp(inout %w: !altgrad.tensors<f32>, in %k: f32) {
  // CHECK: %[[X:.*]] = element
  %v = dequantize %w : !altgrad.tensors<f32>
  %x = element %v
  %y = arith.negf %x : f32
  // CHECK: %[[Y:.*]] = arith.negf %[[X]]
  // CHECK: %[[SIZE:.*]] = math.absf %k : f32
  // CHECK: %[[NEAR:.*]] = arith.cmpf olt, %[[SIZE]], %{{.*}} : f32
  // CHECK: %[[BACK:.*]] = arith.subf %k, %{{.*}} : f32
  // CHECK: %[[STEP:.*]] = arith.select %[[NEAR]], %k, %[[BACK]] : f32
  // CHECK: %[[D:.*]] = arith.subf %[[Y]], %[[X]] : f32
  // CHECK: %[[FROM:.*]] = arith.select %[[NEAR]], %[[X]], %[[Y]] : f32
  // CHECK: math.fma %[[STEP]], %[[D]], %[[FROM]] : f32
  %z = altgrad.lerp %x to %y by %k : f32
  %list = collect %z : f32 to !altgrad.reals
  commit always %list to %w : !altgrad.tensors<f32>
}
