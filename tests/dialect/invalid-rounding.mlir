// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // quantize_c2
  // expected-error@+1 {{'altgrad.quantize' op rounds stochastic and has no draw}}
  %c = quantize %v round<stochastic> overflow<nonfinite> : !altgrad.tensors<bf16>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in random %seed: i64, in random %t: i64) {
  %v = dequantize %x : !altgrad.tensors<f32>
  %r = draw seed(%seed) step(%t) store(0) : i16
  // expected-error@+1 {{'altgrad.quantize' op rounds toward_zero and has a draw}}
  %c = quantize %v round<toward_zero> draw(%r) overflow<nonfinite> : !altgrad.tensors<bf16>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // quantize_c3
  // expected-error@+1 {{'altgrad.quantize' op rounds toward_zero to f32, where nothing is rounded}}
  %c = quantize %v round<toward_zero> overflow<nonfinite> : !altgrad.tensors<f32>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // quantize_c4
  // expected-error@+1 {{'altgrad.quantize' op rounds toward_zero to bnb8; a code book has the nearest number alone}}
  %c = quantize %v round<toward_zero> overflow<saturate> : !altgrad.tensors<bnb8>
  commit
}

// -----

altgrad.step @s(in random %seed: i64, in random %t: i64) {
  // draw_c1
  // expected-error@+1 {{'altgrad.draw' op is for store 256, a number of 0 to 255}}
  %r = draw seed(%seed) step(%t) store(256) : i16
  commit
}

// -----

altgrad.step @s(in random %seed: i64) {
  %i = index : i64
  // draw_c2
  // expected-error@+1 {{'altgrad.draw' op has a seed or a step that differs between elements}}
  %r = draw seed(%seed) step(%i) store(0) : i16
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %x1 = load %x : !altgrad.tensors<f32>
  // encode_c1
  // expected-error@+1 {{'altgrad.encode' op rounds stochastic to #altgrad.format<bf16> with no draw}}
  %c = encode %x1 format<bf16> round<stochastic> overflow<nonfinite> : f32 to i16
  commit
}
