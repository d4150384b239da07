// RUN: altgrad-opt %s --split-input-file --verify-diagnostics --pass-pipeline='builtin.module(altgrad.step(altgrad-plan-phases))'

altgrad.step @group(inout %x: f32 per_group) {
  %y = arith.addf %x, %x : f32
  // expected-error@+1 {{'altgrad.commit' op writes '%x', which is per_group; only scalars of the step, per_tensor and per_unit ones are written}}
  commit always %y to %x : f32
}

// -----

altgrad.step @tensor(in %x: f32 per_tensor, out %y: f32) {
  %z = arith.addf %x, %x : f32
  // expected-error@+1 {{'altgrad.commit' op writes a value that differs between tensors to '%y', which is one for the step}}
  commit always %z to %y : f32
}

// -----

altgrad.step @order(inout %w: !altgrad.tensors<f32>) {
  // expected-error@+1 {{'altgrad.dequantize' op is no sweep: altgrad-sweeps comes first}}
  %x = dequantize %w : !altgrad.tensors<f32>
  commit always %x to %w : !altgrad.tensors<f32>
}
