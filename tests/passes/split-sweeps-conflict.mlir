// RUN: altgrad-opt %s --split-input-file --altgrad-sweeps | FileCheck %s

// What is written only if a condition holds reads %m, which is written always.
// The old %m serves both: one sweep, which keeps the old %w where the condition
// does not hold.
altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32) {
  %m1 = addf %m, %g : f32
  %w1 = subf %w, %m1 : f32
  altgrad.yield param(%w1) state(%m1)
}
// CHECK-LABEL: @conflict
altgrad.step @conflict(in %g: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<f32>,
                       inout %m: !altgrad.tensors<f32>, in %k: f32) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y, %finite = unscale %g by %k : !altgrad.tensors<f32>
  %z = dequantize %m : !altgrad.tensors<f32>
  // CHECK: %[[FINITE:.*]] = sweep @reduce0 load({{.*}}) reduce(and over step) store()
  // CHECK: sweep @update1 load({{.*}}) reduce() store(%m : {{.*}}, %w : {{.*}}) {
  // CHECK: %[[NEW:.*]] = encode
  // CHECK: %[[NEWW:.*]] = encode
  // CHECK: %[[KEPT:.*]] = arith.select %[[FINITE]], %[[NEWW]], %{{.*}} : f32
  // CHECK: emit %[[NEW]], %[[KEPT]] : f32, f32
  // CHECK-NOT: sweep @
  // CHECK: commit{{$}}
  %w1, %m1 = update @r param(%x) grad(%y) state(%z) hyper()
  commit always %m1 to %m : !altgrad.tensors<f32>
      if %finite %w1 to %w : !altgrad.tensors<f32>
}

// -----

// A swap: each wants what the other had.
// CHECK-LABEL: @swap
altgrad.step @swap(inout %a: !altgrad.tensors<bf16>, inout %b: !altgrad.tensors<bf16>, in %k: f32) {
  %ok = arith.cmpf ord, %k, %k : f32
  %x = dequantize %a : !altgrad.tensors<bf16>
  %y = dequantize %b : !altgrad.tensors<bf16>
  %c = quantize %x round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  %d = quantize %y round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  // CHECK-COUNT-1: sweep @
  // CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : i16
  // CHECK-NOT: sweep @
  // CHECK: commit{{$}}
  commit always %c to %b : !altgrad.tensors<bf16>
      if %ok %d to %a : !altgrad.tensors<bf16>
}
