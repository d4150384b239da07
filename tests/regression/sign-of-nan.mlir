// RUN: altgrad-opt %s --target=x86-64-v3,sm_80,sm_90 --emit=bundle -o %t
// A spec of tests/differential/soak.py, seed 1, shrunk. It failed with
// Different: copysign took the sign of a NaN, which differs between machines
altgrad.rule @r0(param %w: f32, grad %g: f32, hyper %h0: f64 = 0.504) {
  %v0 = math.sqrt %g : f32
  %v1 = math.copysign %w, %v0 : f32
  altgrad.yield param(%v1) state()
}
altgrad.step @s(in %grad0: !altgrad.tensors<f32>, inout %w0: !altgrad.tensors<f32>, in %h0_0: f64 per_group) {
  %g0 = dequantize %grad0 : !altgrad.tensors<f32>
  %w0_old = dequantize %w0 : !altgrad.tensors<f32>
  %w0_new = update @r0 param(%w0_old) grad(%g0) state() hyper(%h0_0)
  commit always
      %w0_new to %w0 : !altgrad.tensors<f32>
}
