// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// What the parts of a master may be.

altgrad.step @s(in %w: !altgrad.tensors<f16>, in %r: !altgrad.tensors<int16>) {
  // split_c1
  // expected-error@+1 {{'altgrad.join' op has parts of '!altgrad.tensors<f16>' and '!altgrad.tensors<int16>', expected bf16 and int16 or int8}}
  %x = join %w, %r : !altgrad.tensors<f16>, !altgrad.tensors<int16>
  commit
}

// -----

altgrad.step @s(inout %w: !altgrad.tensors<bf16>, out %r: !altgrad.tensors<uint8>) {
  %x = dequantize %w : !altgrad.tensors<bf16>
  // split_c1
  // expected-error@+1 {{'altgrad.split' op has parts of '!altgrad.tensors<bf16>' and '!altgrad.tensors<uint8>', expected bf16 and int16 or int8}}
  %c, %l = split %x : !altgrad.tensors<bf16>, !altgrad.tensors<uint8>
  commit always %c to %w : !altgrad.tensors<bf16>, %l to %r : !altgrad.tensors<uint8>
}

// -----

altgrad.step @s(out %w: !altgrad.tensors<bf16>, inout %r: !altgrad.tensors<int16>) {
  // step_c8
  // expected-error@+1 {{'altgrad.join' op reads '%w', which is out}}
  %x = join %w, %r : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
  %c, %l = split %x : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
  commit always %c to %w : !altgrad.tensors<bf16>, %l to %r : !altgrad.tensors<int16>
}

// -----

altgrad.step @s(in %x: f32) {
  // part_c1
  // expected-error@+1 {{'altgrad.upper_code' op has a number of 'f32' with a half of 'i8', expected f32 and i16}}
  %c = upper_code %x : f32 to i8
  commit
}

// -----

%x = arith.constant dense<0.0> : vector<4xf32>
// part_c1
// expected-error@+1 {{'altgrad.lower_code' op has a number of 'vector<4xf32>' with a half of 'vector<4xi32>', expected f32 and i16 or i8}}
%c = altgrad.lower_code %x : vector<4xf32> to vector<4xi32>

// -----

altgrad.step @s(in %w: !altgrad.tensors<bf16>, in %k: !altgrad.tensors<f32>) {
  %c = load %w : !altgrad.tensors<bf16>
  %r = load %k : !altgrad.tensors<f32>
  // part_c1
  // expected-error@+1 {{'altgrad.join_codes' op has a number of 'f32' with a half of 'f32', expected f32 and i16 or i8}}
  %x = join_codes %c, %r : i16, f32 to f32
  commit
}
