altgrad.step @s(inout %master: !altgrad.tensors<f32>) {
  %w = dequantize %master : !altgrad.tensors<f32>
  commit
      %w to %master : !altgrad.tensors<f32>
}
