altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %x = element %v
  %a = arith.negf %x : f32
  %b = arith.negf %a : f32
  %c = arith.mulf %b, %x : f32
  %l = collect %c : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}
