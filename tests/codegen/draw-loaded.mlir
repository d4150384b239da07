// RUN: altgrad-opt %s --target=sm_90 --emit=ptx | FileCheck %s
// A draw may be a code that lies in memory: it has no operation of its own.
// CHECK: altgrad_s_update
altgrad.step @s(inout %w: !altgrad.tensors<bf16>, in %bits: !altgrad.tensors<bf16>) {
  %x = dequantize %w : !altgrad.tensors<bf16>
  %e = element %x
  %half = arith.constant 0.3 : f32
  %y = arith.mulf %e, %half : f32
  %l = collect %y : f32 to !altgrad.reals
  %r = load %bits : !altgrad.tensors<bf16>
  %c = quantize %l round<stochastic> draw(%r) overflow<saturate> : !altgrad.tensors<bf16>
  commit always %c to %w : !altgrad.tensors<bf16>
}
