// RUN: altgrad-opt %s --target=x86-64-v3,sm_80,sm_90 --emit=bundle -o %t
// A spec of tests/differential/soak.py, seed 1795698601, shrunk. It failed with
// Refused: a number of a tensor, kept as i32 by its fold, was recalled as i1
altgrad.rule @r0(param %w: f32, grad %g: f32, state %s0: f32, hyper %h0: f64 = 0.609, step %t: i64) {
  %v2 = cmpf uno, %g, %w : f32
  %v19 = altgrad.reduce and %v2 over tensor : i1
  %v33 = select %v19, %w, %g : f32
  altgrad.yield param(%g) state(%v33)
}
altgrad.step @s(in %grad0: !altgrad.tensors<f32>, inout %w0: !altgrad.tensors<f32>, inout %s0_0: !altgrad.tensors<f32>, in %h0_0: f64 per_group, inout %t0: i64 per_tensor) {
  %g0 = dequantize %grad0 : !altgrad.tensors<f32>
  %w0_old = dequantize %w0 : !altgrad.tensors<f32>
  %s0_0_old = dequantize %s0_0 : !altgrad.tensors<f32>
  %one0 = arith.constant 1 : i64
  %next0 = arith.addi %t0, %one0 : i64
  %w0_new, %s0_0_new = update @r0 param(%w0_old) grad(%g0) state(%s0_0_old) hyper(%h0_0) step(%next0)
  commit always
      %next0 to %t0 : i64,
      %w0_new to %w0 : !altgrad.tensors<f32>,
      %s0_0_new to %s0_0 : !altgrad.tensors<f32>
}
