altgrad.step @s(inout %master: !altgrad.tensors<f32>) {
  %w = dequantize %master : !altgrad.tensors<f32>
  %q = quantize %w round<nearest_even> overflow<nonfinite> : !altgrad.tensors<f32>
  commit always %q to %master : !altgrad.tensors<f32>
}
