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
  // expected-error@+1 {{'altgrad.dequantize' op stands in a step that is not in element form yet; run altgrad-expand-formats before altgrad-plan-phases}}
  %x = dequantize %w : !altgrad.tensors<f32>
  commit always %x to %w : !altgrad.tensors<f32>
}

// -----

altgrad.step @heights(in %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32 per 32x1>, out %b: !altgrad.tensors<f32 per 128x128>) {
  sweep @columns load(%x from %w : !altgrad.tensors<f32>) reduce() store(%a : !altgrad.tensors<f32 per 32x1>) {
    %m = reduce max %x over block<32x1> : f32
    emit %m : f32
  }
  // expected-error@+1 {{'altgrad.sweep' op goes over tiles of 128 rows, and another one of its set over tiles of 32; write block<128x128> for all blocks over rows, or for none}}
  sweep @squares load(%x from %w : !altgrad.tensors<f32>) reduce() store(%b : !altgrad.tensors<f32 per 128x128>) {
    %m = reduce max %x over block<128x128> : f32
    emit %m : f32
  }
  commit
}
