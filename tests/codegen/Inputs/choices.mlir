// Four options that stay in the code, as constants.
altgrad.rule @r(param %w: f32, grad %g: f32, option %a: i1 = false, option %b: i1 = true,
                option %c: i1 = true, option %d: i1 = false) {
  %up = cmpf ogt, %w, %g : f32
  %x = xori %up, %a : i1
  %y = xori %x, %b : i1
  %z = xori %y, %c : i1
  %v = xori %z, %d : i1
  %w1 = select %v, %w, %g : f32
  altgrad.yield param(%w1) state()
}
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %w1 = update @r param(%x) grad(%x) state() hyper()
  commit always %w1 to %w : !altgrad.tensors<f32>
}
