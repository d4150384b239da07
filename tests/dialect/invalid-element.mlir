// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// The form for one element, between a step and its sweeps.

altgrad.step @s(in %x: !altgrad.tensors<bf16>) {
  // expected-error@+1 {{'altgrad.load' op failed to verify that the code is what the format of the stream gives}}
  %c = "altgrad.load"(%x) : (!altgrad.tensors<bf16>) -> f32
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{custom op 'altgrad.load' 'tensors' must be a list of tensors in memory}}
  %y = load %x : f32
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<bf16>) {
  %c = load %x : !altgrad.tensors<bf16>
  // conversion_c2
  // expected-error@+1 {{'altgrad.decode' op converts between 'i16' and 'f64', expected 'i16' and 'f32'}}
  %y = decode %c format<bf16> : i16 to f64
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<bf16>) {
  %c = load %x : !altgrad.tensors<bf16>
  // conversion_c2
  // expected-error@+1 {{'altgrad.decode' op converts between 'i16' and 'f32', expected 'i8' and 'f32'}}
  %y = decode %c format<ocp.e5m2> : i16 to f32
  commit
}

// -----

altgrad.step @s(in %k: f32) {
  // conversion_c2
  // expected-error@+1 {{'altgrad.encode' op converts between 'i16' and 'f32', expected 'i8' and 'f32'}}
  %c = encode %k format<ocp.e4m3fn> round<nearest_even> overflow<saturate> : f32 to i16
  commit
}

// -----

%c = arith.constant dense<0> : vector<2x2xi16>
// conversion_c1
// expected-error@+1 {{'altgrad.decode' op converts 'vector<2x2xf32>', expected f32 or a vector of it}}
%x = altgrad.decode %c format<bf16> : vector<2x2xi16> to vector<2x2xf32>

// -----

%c = arith.constant dense<0> : vector<4xi16>
// expected-error@+1 {{'altgrad.decode' op all non-scalar operands/results must have the same shape and base type}}
%x = altgrad.decode %c format<bf16> : vector<4xi16> to vector<8xf32>

// -----

altgrad.step @s(in %k: f64) {
  // collect_c1
  // expected-error@+1 {{'altgrad.collect' op collects 'f64' to '!altgrad.reals'}}
  %l = collect %k : f64 to !altgrad.reals
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<bf16>, in %k: f32) {
  %c = load %x : !altgrad.tensors<bf16>
  // A factor is for numbers, not for codes.
  // collect_c1
  // expected-error@+1 {{'altgrad.collect' op collects 'i16' to '!altgrad.tensors<bf16>'}}
  %l = collect %c by %k : i16 to !altgrad.tensors<bf16>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %k: f32) {
  // expected-error@+1 {{'altgrad.element' takes a list of tensors as f32 values that are not stored, and its operand 1 is f32}}
  %y = "altgrad.element"(%k) : (f32) -> f32
  commit
}

// -----

altgrad.step @s(in %k: f32) {
  // expected-error@+1 {{'altgrad.spill' op result #0 must be a list of tensors in memory, all of one format, but got 'f32'}}
  %y = "altgrad.spill"() : () -> f32
  commit
}

// -----

altgrad.step @s(in %k: f32, out %n: f32) {
  // step_c5
  // expected-error@+1 {{'altgrad.reduce' op reduces a value that is the same for all elements; leave the reduction out, or the scale of the copy that stores it}}
  %s = reduce add %k over step : f32
  commit always %s to %n : f32
}

// -----

// A norm is one number, whatever list it is of.
altgrad.step @s(in %x: !altgrad.tensors<f32>, in %k: f32, out %y: f32) {
  %c = load %x : !altgrad.tensors<f32>
  %list = collect %c : f32 to !altgrad.reals
  %clipped, %norm = clip_by_global_norm %list to %k
  // step_c5
  // expected-error@+1 {{'altgrad.reduce' op reduces a value that is the same for all elements; leave the reduction out, or the scale of the copy that stores it}}
  %r = reduce add %norm over step : f32
  commit always %r to %y : f32
}

// -----

altgrad.step @s(in %k: f32, out %n: f32) {
  // function_c1
  // expected-error@+1 {{'altgrad.function' op computes math.tan in 'f32', expected a function of math that rules may hold}}
  %y = function "math.tan"(%k) : (f32) -> f32
  commit always %y to %n : f32
}

// -----

altgrad.step @s(in %k: f32, out %n: f32) {
  // function_c2
  // expected-error@+1 {{'altgrad.function' op has 1 operands for math.powf, expected 2}}
  %y = function "math.powf"(%k) : (f32) -> f32
  commit always %y to %n : f32
}

// -----

altgrad.step @s(in %k: f64, out %n: f64) {
  // function_c1
  // expected-error@+1 {{'altgrad.function' op computes math.tanh in 'f64', expected a function of math that rules may hold}}
  %y = function "math.tanh"(%k) : (f64) -> f64
  commit always %y to %n : f64
}
