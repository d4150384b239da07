// RUN: altgrad-opt %s --target=x86-64-v3,sm_80,sm_90 --emit=bundle -o %t
// A spec of tests/differential/soak.py, seed 254, shrunk. It failed with
// Different: a tensor written on condition was computed from one written always, after that write
altgrad.rule @r0(param %w: f32, grad %g: f32, state %s0: f32, state %s1: f32, hyper %h0: f64 = 0.504) {
  %v0 = truncf %h0 : f64 to f32
  %v1 = math.fma %v0, %s1, %s0 : f32
  altgrad.yield param(%g) state(%v1, %g)
}
altgrad.step @s(in %inv_scale: f32, in %grad0: !altgrad.tensors<f32>, inout %w0: !altgrad.tensors<f32>, inout %s0_0: !altgrad.tensors<f32>, inout %s1_0: !altgrad.tensors<f32>, in %h0_0: f64 per_group) {
  %g0, %finite0 = unscale %grad0 by %inv_scale : !altgrad.tensors<f32>
  %w0_old = dequantize %w0 : !altgrad.tensors<f32>
  %s0_0_old = dequantize %s0_0 : !altgrad.tensors<f32>
  %s1_0_old = dequantize %s1_0 : !altgrad.tensors<f32>
  %w0_new, %s0_0_new, %s1_0_new = update @r0 param(%w0_old) grad(%g0) state(%s0_0_old, %s1_0_old) hyper(%h0_0)
  commit always
      %s1_0_new to %s1_0 : !altgrad.tensors<f32>
      if %finite0
      %w0_new to %w0 : !altgrad.tensors<f32>,
      %s0_0_new to %s0_0 : !altgrad.tensors<f32>
}
