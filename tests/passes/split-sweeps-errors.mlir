// RUN: altgrad-opt %s --altgrad-split-sweeps --verify-diagnostics

altgrad.step @lists(inout %w: !altgrad.tensors<f32>) {
  // expected-error@+1 {{'altgrad.dequantize' op is not in element form: it comes before altgrad-inline-rules and the expanding passes}}
  %x = dequantize %w : !altgrad.tensors<f32>
  commit always %x to %w : !altgrad.tensors<f32>
}
