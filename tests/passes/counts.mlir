// RUN: altgrad-opt %s --altgrad-sweeps | FileCheck %s
// RUN: altgrad-opt %s --altgrad-sweeps | altgrad-opt --pass-pipeline='builtin.module(altgrad.step(altgrad-plan-phases))' | FileCheck %s --check-prefix=PHASES
// How many elements have something is a reduction of truth values; what chunks have counted is added.

// CHECK: sweep @reduce load({{.*}} from %w : !altgrad.tensors<f32>) reduce(count over tensor) store()
// CHECK: %[[FLAG:.*]] = arith.cmpf
// CHECK: emit %[[FLAG]] : i1
// PHASES: fold add chunk 0 : f32
altgrad.step @s(in %w: !altgrad.tensors<f32>, in %k: f32, out %n: f32 per_tensor) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %large = arith.cmpf ogt, %e, %k : f32
  %count = reduce count %large over tensor : i1
  commit always %count to %n : f32
}
