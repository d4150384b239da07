// RUN: altgrad-opt %s --target=x86-64-v3,sm_80,sm_90 --emit=bundle -o %t
// A spec of tests/differential/soak.py, seed 210, shrunk. It failed with
// Refused: 'altgrad.encode' op is no sweep: altgrad-sweeps comes first
altgrad.rule @r0(param %w: f32, grad %g: f32, state %s0: f32, hyper %h0: f64 = 0.504) {
  %v0 = truncf %h0 : f64 to f32
  %v1 = subf %w, %g : f32
  altgrad.yield param(%v1) state(%v0)
}
altgrad.step @s(in %grad0: !altgrad.tensors<f32>, inout %w0: !altgrad.tensors<f32>, inout %s0_0: !altgrad.tensors<bf16>, in %h0_0: f64 per_group) {
  %g0 = dequantize %grad0 : !altgrad.tensors<f32>
  %w0_old = dequantize %w0 : !altgrad.tensors<f32>
  %s0_0_old = dequantize %s0_0 : !altgrad.tensors<bf16>
  %w0_new, %s0_0_new = update @r0 param(%w0_old) grad(%g0) state(%s0_0_old) hyper(%h0_0)
  %s0_0_code = quantize %s0_0_new round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  commit always
      %w0_new to %w0 : !altgrad.tensors<f32>,
      %s0_0_code to %s0_0 : !altgrad.tensors<bf16>
}
