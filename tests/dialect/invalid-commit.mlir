// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

altgrad.step @s(in %x: f32, out %y: f32) {
  // commit_c1
  // expected-error@+1 {{'altgrad.commit' op has values and targets of uneven number}}
  "altgrad.commit"(%x) <{operandSegmentSizes = array<i32: 0, 1, 0, 0, 0>}> : (f32) -> ()
}

// -----

altgrad.step @s(in %x: f32, out %y: f32) {
  // commit_c2
  // expected-error@+1 {{'altgrad.commit' op has an if list without a condition}}
  "altgrad.commit"(%x, %y) <{operandSegmentSizes = array<i32: 0, 0, 0, 1, 1>}> : (f32, f32) -> ()
}

// -----

altgrad.step @s(in %x: f32) {
  %y = arith.addf %x, %x : f32
  // commit_c3
  // expected-error@+1 {{'altgrad.commit' op writes to something that is no argument of the step}}
  commit always %x to %y : f32
}

// -----

altgrad.step @s(in %x: f32, inout %y: f32) {
  %ok = arith.cmpf olt, %x, %y : f32
  // commit_c4
  // expected-error@+1 {{'altgrad.commit' op writes argument 1 twice}}
  commit always %x to %y : f32 if %ok %x to %y : f32
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, out %y: !altgrad.tensors<bf16>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // commit_c6
  // expected-error@+1 {{'altgrad.commit' op writes '!altgrad.reals' to '!altgrad.tensors<bf16>'}}
  "altgrad.commit"(%v, %y) <{operandSegmentSizes = array<i32: 0, 1, 1, 0, 0>}> : (!altgrad.reals, !altgrad.tensors<bf16>) -> ()
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, out %y: !altgrad.tensors<bf16>) {
  // expected-note@+1 {{it is defined here}}
  %v = dequantize %x : !altgrad.tensors<f32>
  // A narrower format needs the word `quantize`.
  // expected-error@+1 {{is !altgrad.reals and is used as !altgrad.tensors<bf16>}}
  commit always %v to %y : !altgrad.tensors<bf16>
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<bf16>, out %y: !altgrad.tensors<bf16>) {
  // commit_c5
  // expected-error@+1 {{'altgrad.commit' op writes an argument; dequantize and quantize it}}
  commit always %x to %y : !altgrad.tensors<bf16>
}

// -----

altgrad.step @s(in %x: f32, out %y: f32) {
  // expected-error@+1 {{'altgrad.commit' takes i1, and its operand 1 is f32}}
  "altgrad.commit"(%x, %x, %y) <{operandSegmentSizes = array<i32: 1, 0, 0, 1, 1>}> : (f32, f32, f32) -> ()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // expected-error@+1 {{'altgrad.commit' op expects parent op 'altgrad.step'}}
  altgrad.commit
}

// -----

altgrad.step @s(out %x: f32, in %k: f32) {
  // step_c8
  // expected-error@+1 {{'arith.addf' op reads '%x', which is out}}
  %sum = arith.addf %x, %k : f32
  commit always %sum to %x : f32
}

// -----

altgrad.step @s(out %x: f32, out %y: f32, in %k: f32) {
  // step_c8
  // expected-error@+1 {{'altgrad.commit' op reads '%x', which is out}}
  commit always %k to %x : f32, %x to %y : f32
}
