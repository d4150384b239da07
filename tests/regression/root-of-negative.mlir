// RUN: altgrad-opt %s --target=x86-64-v3,sm_80,sm_90 --emit=bundle -o %t
// A spec of tests/differential/soak.py, seed 0, shrunk. It failed with
// Different: a NaN that a square root makes was stored as 7fffffff or ffc00000, norm included
altgrad.rule @r0(param %w: f32, grad %g: f32, state %s0: f32, hyper %h0: f64 = 0.504) {
  %v0 = math.sqrt %g : f32
  altgrad.yield param(%v0) state(%v0)
}
altgrad.step @s(in %grad0: !altgrad.tensors<f32>, in %max_norm: f32, out %norm: f32, inout %w0: !altgrad.tensors<f32>, inout %s0_0: !altgrad.tensors<f32>, in %h0_0: f64 per_group) {
  %g0 = dequantize %grad0 : !altgrad.tensors<f32>
  %g0c, %total = clip_by_global_norm %g0 to %max_norm
  %w0_old = dequantize %w0 : !altgrad.tensors<f32>
  %s0_0_old = dequantize %s0_0 : !altgrad.tensors<f32>
  %w0_new, %s0_0_new = update @r0 param(%w0_old) grad(%g0c) state(%s0_0_old) hyper(%h0_0)
  commit always
      %total to %norm : f32,
      %w0_new to %w0 : !altgrad.tensors<f32>,
      %s0_0_new to %s0_0 : !altgrad.tensors<f32>
}
