// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

// What norms, rounding and histories are refused.

altgrad.step @s(in %x: !altgrad.tensors<f32>, out %n: f32 per_tensor) {
  %v = dequantize %x : !altgrad.tensors<f32>
  %e = element %v
  // round_c1
  // expected-error@+1 {{'altgrad.round' op rounds a number that differs between elements; quantize does}}
  %r = round %e format<bf16>
  commit always %r to %n : f32
}

// -----

altgrad.step @s(in %x: f32, out %n: f32) {
  // round_c2
  // expected-error@+1 {{'altgrad.round' op rounds to a format that has no infinity}}
  %r = round %x format<ocp.e4m3fn>
  commit always %r to %n : f32
}

// -----

altgrad.step @s(in %x: f32, out %n: f32) {
  // across_c1
  // expected-error@+1 {{'altgrad.across' op adds up a number that is not one for each tensor}}
  %r = across %x
  commit always %r to %n : f32
}

// -----

altgrad.step @s(in %x: f32, out %n: f32) {
  // all_reduce_c1
  // expected-error@+1 {{'altgrad.all_reduce' op is of a share that is no reduction over the step}}
  %r = all_reduce %x as "rule.0" : f32
  commit always %r to %n : f32
}

// -----

altgrad.step @s(inout %h: f32, in %x: f32) {
  // percentile_c1
  // expected-error@+1 {{'altgrad.percentile' op is of something that is no history of the step}}
  %p = percentile %h with %x at %x
  commit always %p to %h : f32
}

// -----

altgrad.step @s(inout history %h: f32, in %x: !altgrad.tensors<f32>, in %k: f32, out %n: f32) {
  %v = dequantize %x : !altgrad.tensors<f32>
  %e = element %v
  // percentile_c2
  // expected-error@+1 {{'altgrad.percentile' op is asked of a number that differs between elements}}
  %p = percentile %h with %e at %k
  commit always %k to %h : f32, %p to %n : f32
}

// -----

altgrad.step @s(inout history %h: f32, in %k: f32) {
  // step_c24
  // expected-error@+1 {{'arith.addf' op reads a history, as percentile alone does}}
  %p = arith.addf %h, %k : f32
  commit always %p to %h : f32
}

// -----

// step_c23
// expected-error@+1 {{'altgrad.step' op gives '%h' the role 'history', which is of an f32 for the step or for each tensor}}
altgrad.step @s(inout history %h: f64) {
  %p = arith.constant 1.0 : f64
  commit always %p to %h : f64
}

// -----

// step_c23
// expected-error@+1 {{'altgrad.step' op gives '%h' the role 'history', which is of an f32 for the step or for each tensor that is in or inout}}
altgrad.step @s(out history %h: f32, in %k: f32) {
  commit always %k to %h : f32
}
