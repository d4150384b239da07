altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %q : !altgrad.tensors<f32>
  commit always %x to %w : !altgrad.tensors<f32>
}
