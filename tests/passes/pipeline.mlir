// RUN: altgrad-opt %s --altgrad-sweeps | FileCheck %s
// RUN: altgrad-opt %s --altgrad-sweeps="canonicalize=false" | FileCheck %s
// RUN: altgrad-opt %s --pass-pipeline='builtin.module(altgrad-sweeps{rule-path=%S/Inputs})' | FileCheck %s

// From a step as written to two sweeps, because a norm must be known before it
// is used; what is read and written is the same with canonicalization or without.
altgrad.rule @sgd(param %w: f32, grad %g: f32, hyper %lr: f64, option %up: i1 = false) {
  %minus = negf %g : f32
  %g0 = select %up, %minus, %g : f32
  %rate = truncf %lr : f64 to f32
  %dw = mulf %rate, %g0 : f32
  %w1 = subf %w, %dw : f32
  altgrad.yield param(%w1) state()
}

// CHECK-LABEL: altgrad.step @train
altgrad.step @train(in %grads: !altgrad.tensors<bf16>, inout %w: !altgrad.tensors<f32>,
                    out %half: !altgrad.tensors<f16>, out %norm: f32,
                    in %k: f32, in %limit: f32, in %lr: f64 per_group) {
  // CHECK: %[[R:.*]]:2 = sweep @reduce0 load(%{{.*}} from %grads : !altgrad.tensors<bf16>) reduce(and over step, sumsq over step) store()
  // CHECK: %[[NORM:.*]] = math.sqrt %[[R]]#1 : f32
  // CHECK: sweep @update1 if %[[R]]#0 load(
  // CHECK-SAME: %grads : !altgrad.tensors<bf16>
  // CHECK-SAME: reduce() store(%w : !altgrad.tensors<f32>, %half : !altgrad.tensors<f16>) {
  // CHECK-NOT: truncf
  // CHECK-NOT: negf
  // CHECK: commit always
  // CHECK-NEXT: %[[NORM]] to %norm : f32
  %g, %finite = unscale %grads by %k : !altgrad.tensors<bf16>
  %c, %n = clip_by_global_norm %g to %limit
  %x = dequantize %w : !altgrad.tensors<f32>
  %w1 = update @sgd param(%x) grad(%c) state() hyper(%lr)
  %h = quantize %w1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<f16>
  commit always %n to %norm : f32
      if %finite
      %w1 to %w : !altgrad.tensors<f32>,
      %h to %half : !altgrad.tensors<f16>
}
