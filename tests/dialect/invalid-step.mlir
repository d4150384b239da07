// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

//===-- Signature -----------------------------------------------------------===//

// step_c1
// expected-error@+1 {{'altgrad.step' op has a signature of uneven lengths}}
"altgrad.step"() <{sym_name = "s", signature = []}> ({
^bb0(%x: f32):
  "altgrad.commit"() <{operandSegmentSizes = array<i32: 0, 0, 0, 0, 0>}> : () -> ()
}) : () -> ()

// -----

// name_c1
// expected-error@+1 {{'altgrad.step' op has the name 'a;b', which is no identifier}}
altgrad.step @"a;b"(in %x: f32) { commit }

// -----

// name_c2
// expected-error@+1 {{'altgrad.step' op has an argument '%w.old', which is no identifier}}
altgrad.step @s(in %w.old: f32) { commit }

// -----

// step_c2
// expected-error@+1 {{unknown access 'read'; accesses are in, out, inout}}
altgrad.step @s(read %x: f32) { commit }

// -----

// step_c3
// expected-error@+1 {{'altgrad.step' op has '%x' of type 'bf16', expected !altgrad.tensors, f64, f32 or i64}}
altgrad.step @s(in %x: bf16) { commit }

// -----

// step_c3
// expected-error@+1 {{'altgrad.step' op has '%x' of type '!altgrad.reals', expected}}
altgrad.step @s(in %x: !altgrad.reals) { commit }

// -----

// step_c4
// expected-error@+1 {{'altgrad.step' op gives the tensors '%x' a scope; only scalars have one}}
altgrad.step @s(in %x: !altgrad.tensors<f32> per_group) { commit }

// -----

// expected-error@+1 {{unknown role 'weight'; roles are param, grad, state, master, copy, block_scale, remainder, input, hyper, step, max_norm, norm, scale, inv_scale, flag, scaler, statistic, random}}
altgrad.step @s(in weight %x: f32) { commit }

// -----

// step_c12
// expected-error@+1 {{'altgrad.step' op gives '%x' the role 'option' of a rule}}
"altgrad.step"() <{sym_name = "s", signature = [#altgrad.argument<access = in, role = option, name = "x", key = "x", scope = step, set = -1>]}> ({
^bb0(%x: f32):
  "altgrad.commit"() <{operandSegmentSizes = array<i32: 0, 0, 0, 0, 0>}> : () -> ()
}) : () -> ()

// -----

// step_c13
// expected-error@+1 {{'altgrad.step' op gives '%x' the role 'hyper', which is of scalars}}
altgrad.step @s(in hyper %x: !altgrad.tensors<f32>) { commit }

// -----

// step_c13
// expected-error@+1 {{'altgrad.step' op gives '%x' the role 'state', which is of lists of tensors}}
altgrad.step @s(in state %x: f64 per_group) { commit }

// -----

// step_c15
// expected-error@+1 {{'altgrad.step' op gives '%x' the default 1.000000e+00 : f64; only a hyper and a scalar state have one, a finite f64}}
altgrad.step @s(in norm %x: f64 = 1.0) { commit }

// -----

// step_c16
// expected-error@+1 {{'altgrad.step' op has '%a' and '%b' with role 'state' and key 'm' in one set}}
altgrad.step @s(in state %a as m: !altgrad.tensors<f32>, in state %b as m: !altgrad.tensors<f32>) { commit }

// -----

// step_c17
// expected-error@+1 {{'altgrad.step' op gives '%a' the key 'm.old'; a key is an identifier}}
altgrad.step @s(in state %a as m.old: !altgrad.tensors<f32>) { commit }

// -----

//===-- Body ----------------------------------------------------------------===//

altgrad.step @s(out %x: f32) {
  // expected-error@+1 {{the last operation is missing}}
  %c = arith.constant 1.0 : f32
}

// -----

altgrad.step @s(in %x: f32, in %y: f32) {
  // step_c6
  // expected-error@+1 {{'altgrad.commit' op writes '%x', which is in}}
  commit always %y to %x : f32
}

// -----

altgrad.step @s(out %x: f32) {
  // step_c7
  // expected-error@+1 {{'altgrad.commit' op never writes '%x', which is out}}
  commit
}

// -----

altgrad.step @s(inout %x: !altgrad.tensors<f32>) {
  // step_c7
  // expected-error@+1 {{'altgrad.commit' op never writes '%x', which is inout}}
  commit
}

// -----

altgrad.step @s(out %x: !altgrad.tensors<f32>) {
  // step_c8
  // expected-error@+1 {{'altgrad.dequantize' op reads '%x', which is out}}
  %v = dequantize %x : !altgrad.tensors<f32>
  commit always %v to %x : !altgrad.tensors<f32>
}

// -----

altgrad.step @s(out %x: !altgrad.tensors<bf16>, in %k: f32) {
  // step_c8
  // expected-error@+1 {{'altgrad.unscale' op reads '%x', which is out}}
  %v, %ok = unscale %x by %k : !altgrad.tensors<bf16>
  %c = quantize %v round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  commit always %c to %x : !altgrad.tensors<bf16>
}

// -----

//===-- Types that bodies pass on -------------------------------------------===//

// expected-note@+1 {{it is defined here}}
altgrad.step @s(in %x: f32) {
  // expected-error@+1 {{is f32 and is used as !altgrad.tensors<f32>}}
  %v = dequantize %x : !altgrad.tensors<f32>
  commit
}

// -----

// expected-note@+1 {{it is defined here}}
altgrad.step @s(in %x: !altgrad.tensors<bf16>, in %k: f64) {
  // expected-error@+1 {{is f64 and is used as f32}}
  %v, %ok = unscale %x by %k : !altgrad.tensors<bf16>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<bf16>) {
  // expected-error@+1 {{'altgrad.dequantize' takes a list of tensors in memory, all of one format, and its operand 1 is !altgrad.reals}}
  %v = "altgrad.dequantize"(%w) : (!altgrad.reals) -> !altgrad.reals
  %w = dequantize %x : !altgrad.tensors<bf16>
  commit
}

// -----

//===-- Quantize ------------------------------------------------------------===//

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // quantize_c1
  // expected-error@+1 {{'altgrad.quantize' op overflows to a non-finite code the format does not have}}
  %c = quantize %v round<nearest_even> overflow<nonfinite> : !altgrad.tensors<#altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = false, nan = none>>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // expected-error@+1 {{expected 'round'}}
  %c = quantize %v overflow<nonfinite> : !altgrad.tensors<bf16>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // expected-error@+1 {{expected 'overflow'}}
  %c = quantize %v round<nearest_even> : !altgrad.tensors<bf16>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // expected-error@+1 {{has no 'upward'}}
  %c = quantize %v round<upward> overflow<nonfinite> : !altgrad.tensors<bf16>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // expected-error@+1 {{has no 'wrap'}}
  %c = quantize %v round<nearest_even> overflow<wrap> : !altgrad.tensors<bf16>
  commit
}

// -----

//===-- Clip ----------------------------------------------------------------===//

altgrad.step @s(in %limit: f32) {
  // clip_c1
  // expected-error@+1 {{'altgrad.clip_by_global_norm' op clips no list}}
  %n = clip_by_global_norm to %limit
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %limit: f32) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // expected-error@+2 {{'altgrad.clip_by_global_norm' op failed to infer returned types}}
  // expected-error@+1 {{'altgrad.clip_by_global_norm' op inferred type(s) '!altgrad.reals', 'f32' are incompatible with return type(s) of operation 'f32'}}
  %n = "altgrad.clip_by_global_norm"(%v, %limit) : (!altgrad.reals, f32) -> f32
  commit
}

// -----

//===-- Norm, scale ---------------------------------------------------------===//

altgrad.step @s(in %k: f32) {
  // norm_c1
  // expected-error@+1 {{'altgrad.norm' op is of no list}}
  %n = norm l1 over step
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // norm_c2
  // expected-error@+1 {{'altgrad.norm' op is over unit, tensor or step, not over a group}}
  %n = norm l2 %v over group
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %y: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  %w = dequantize %y : !altgrad.tensors<f32>
  // norm_c3
  // expected-error@+1 {{'altgrad.norm' op over tensor is of one list, not of 2}}
  %n = norm linf %v, %w over tensor
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  %e = element %v
  // scale_c1
  // expected-error@+1 {{'altgrad.scale' op multiplies by a factor that differs between elements}}
  %w = scale %v by %e
  commit
}

// -----

// step_c9
// expected-error@+1 {{'altgrad.step' op has a set 2 and 1 in all; sets are numbered from 0 without a gap, at most 64}}
altgrad.step @gap(in %g: !altgrad.tensors<f32> set 2) {
  commit
}

// -----

// step_c9
// expected-error@+1 {{'altgrad.step' op has a set -1 and 1 in all; sets are numbered from 0 without a gap, at most 64}}
altgrad.step @negative(in %g: !altgrad.tensors<f32> set -1) {
  commit
}

// -----

// step_c10
// expected-error@+1 {{'altgrad.step' op gives '%limit' a set; a scalar has one if it is per_group, per_tensor or per_unit}}
altgrad.step @scalar(in %g: !altgrad.tensors<f32>, in %limit: f32 set 0) {
  commit
}

// -----

// step_c14
// expected-error@+1 {{'altgrad.step' op gives '%lr' the set 1, which has no list}}
altgrad.step @listless(in %g: !altgrad.tensors<f32>, in %lr: f64 per_tensor set 1) {
  commit
}

// -----

// What is of one set does not meet another set's tensors.
altgrad.step @rate(in %g: !altgrad.tensors<f32>, out %w: !altgrad.tensors<f32>,
                   in %h: !altgrad.tensors<f32> set 1, in %rate: f64 per_group set 1) {
  %x = dequantize %g : !altgrad.tensors<f32>
  %e = element %x
  %r = arith.truncf %rate : f64 to f32
  // step_c11
  // expected-error@+1 {{'arith.mulf' op brings lists of different sets together}}
  %y = arith.mulf %e, %r : f32
  %l = collect %y : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}

// -----

altgrad.step @meeting(in %g: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<f32> set 1) {
  %x = dequantize %g : !altgrad.tensors<f32>
  %y = dequantize %w : !altgrad.tensors<f32>
  %xe = element %x
  %ye = element %y
  // step_c11
  // expected-error@+1 {{'arith.addf' op brings lists of different sets together}}
  %z = arith.addf %xe, %ye : f32
  %l = collect %z : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}

// -----

altgrad.step @stored(in %g: !altgrad.tensors<f32>, out %w: !altgrad.tensors<f32> set 1) {
  %x = dequantize %g : !altgrad.tensors<f32>
  // step_c11
  // expected-error@+1 {{'altgrad.commit' op brings lists of different sets together}}
  commit always %x to %w : !altgrad.tensors<f32>
}

// -----

// What one tensor of a list decides says nothing of another list's.
altgrad.step @decided(in %g: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<f32> set 1) {
  %x = dequantize %g : !altgrad.tensors<f32>
  %xe = element %x
  %one = arith.constant 1.0 : f32
  %norm = reduce sumsq %xe over tensor : f32
  %small = arith.cmpf olt, %norm, %one : f32
  %y = dequantize %w : !altgrad.tensors<f32>
  // step_c11
  // expected-error@+1 {{'altgrad.commit' op brings lists of different sets together}}
  commit if %small %y to %w : !altgrad.tensors<f32>
}

// -----

altgrad.step @s(inout %a: !altgrad.tensors<f32>, inout %b: !altgrad.tensors<f32> set 1, out %n: f32) {
  %x = dequantize %a : !altgrad.tensors<f32>
  %y = dequantize %b : !altgrad.tensors<f32>
  %i = index : i64
  %f = arith.sitofp %i : i64 to f32
  // step_c18
  // expected-error@+1 {{'altgrad.reduce' op reduces elements of no list; with several sets it must be one's}}
  %s = reduce add %f over step : f32
  commit always %x to %a : !altgrad.tensors<f32>, %y to %b : !altgrad.tensors<f32>, %s to %n : f32
}
