// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

//===-- Signature -----------------------------------------------------------===//

// expected-error@+1 {{true or false is expected here}}
altgrad.rule @r(param %w: f32, grad %g: f32, option %o: i1 = maybe) {
  altgrad.yield param(%w) state()
}

// -----

// rule_c1
// expected-error@+1 {{'altgrad.rule' op has a signature of uneven lengths}}
"altgrad.rule"() <{sym_name = "r", signature = [#altgrad.argument<access = in, role = param, name = "w", key = "w", scope = step, set = -1>]}> ({
^bb0(%w: f32, %g: f32):
  "altgrad.yield"(%w) : (f32) -> ()
}) : () -> ()

// -----

// expected-error@+1 {{unknown role 'const'; roles are param, grad, state, input, value, hyper, step, option}}
altgrad.rule @r(param %w: f32, grad %g: f32, const %h: f64) {
  altgrad.yield param(%w) state()
}

// -----

// rule_c2
// expected-error@+2 {{'altgrad.rule' op gives '%w' the role 'master'; roles are param, grad, state, input, value, hyper, step, option}}
"altgrad.rule"() <{sym_name = "r", signature = [#altgrad.argument<access = in, role = master, name = "w", key = "w", scope = step, set = -1>]}> ({
^bb0(%w: f32):
  "altgrad.yield"(%w) : (f32) -> ()
}) : () -> ()

// -----

// expected-error@+2 {{unknown role 'weight'}}
"altgrad.rule"() <{sym_name = "r", signature = [#altgrad.argument<access = in,
    role = weight, name = "w", key = "w", scope = step, set = -1>]}> ({
^bb0(%w: f32):
  "altgrad.yield"(%w) : (f32) -> ()
}) : () -> ()

// -----

// rule_c3
// expected-error@+1 {{'altgrad.rule' op has hyper '%lr' of type f32, expected f64}}
altgrad.rule @r(param %w: f32, grad %g: f32, hyper %lr: f32) {
  altgrad.yield param(%w) state()
}

// -----

// rule_c3
// expected-error@+1 {{'altgrad.rule' op has state '%m' of type bf16, expected f32}}
altgrad.rule @r(param %w: f32, grad %g: f32, state %m: bf16) {
  altgrad.yield param(%w) state(%w)
}

// -----

// rule_c4
// expected-error@+1 {{'altgrad.rule' op gives state '%m' a default}}
altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32 = 0.0) {
  altgrad.yield param(%w) state(%m)
}

// -----

// rule_c5
// expected-error@+1 {{'altgrad.rule' op has option '%o' without a default}}
altgrad.rule @r(param %w: f32, grad %g: f32, option %o: i1) {
  altgrad.yield param(%w) state()
}

// -----

// rule_c6
// expected-error@+3 {{'altgrad.rule' op gives option '%o' a default of another type}}
"altgrad.rule"() <{sym_name = "r", signature = [#altgrad.argument<access = in, role = option, name = "o", key = "o", scope = step, set = -1, fallback = 3 : i32>,
                   #altgrad.argument<access = in, role = param, name = "w", key = "w", scope = step, set = -1>]}> ({
^bb0(%o: i1, %w: f32):
  "altgrad.yield"(%w) : (f32) -> ()
}) : () -> ()

// -----

// rule_c7
// expected-error@+1 {{'altgrad.rule' op gives hyper '%h' a default that is not finite}}
altgrad.rule @r(param %w: f32, grad %g: f32, hyper %h: f64 = 0x7FF0000000000000) {
  altgrad.yield param(%w) state()
}

// -----

// name_c1
// expected-error@+1 {{'altgrad.rule' op has the name 'a b', which is no identifier}}
altgrad.rule @"a b"(param %w: f32, grad %g: f32) {
  altgrad.yield param(%w) state()
}

// -----

// rule_c8
// expected-error@+1 {{'altgrad.rule' op has 2 arguments of role param, expected 1}}
altgrad.rule @r(param %w: f32, param %x: f32, grad %g: f32) {
  altgrad.yield param(%w) state()
}

// -----

// rule_c8
// expected-error@+1 {{'altgrad.rule' op has 0 arguments of role grad, expected 1}}
altgrad.rule @r(param %w: f32) {
  altgrad.yield param(%w) state()
}

// -----

// rule_c9
// expected-error@+1 {{'altgrad.rule' op has more than one step count}}
altgrad.rule @r(param %w: f32, grad %g: f32, step %t: i64, step %u: i64) {
  altgrad.yield param(%w) state()
}

// -----

//===-- End -----------------------------------------------------------------===//

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // expected-error@+1 {{the last operation is missing}}
  %x = addf %w, %g : f32
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32) {
  // rule_c12
  // expected-error@+1 {{'altgrad.yield' op has 0 states, the rule has 1}}
  altgrad.yield param(%w) state()
}

// -----

// expected-note@+1 {{it is defined here}}
altgrad.rule @r(param %w: f32, grad %g: f32, hyper %lr: f64) {
  // expected-error@+1 {{'%lr' is f64 and is used as f32}}
  altgrad.yield param(%lr) state()
}

// -----

altgrad.step @s(in %x: f32) {
  // expected-error@+1 {{'altgrad.yield' op expects parent op 'altgrad.rule'}}
  "altgrad.yield"(%x) : (f32) -> ()
}

// -----

// expected-error@+1 {{'altgrad.rule' op region #0 ('body') failed to verify constraint: region with 1 blocks}}
altgrad.rule @r(param %w: f32, grad %g: f32) {
  altgrad.yield param(%w) state()
^bb1:
  altgrad.yield param(%w) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, unit_state %s: f32) {
  // rule_c14
  // expected-error@+1 {{'altgrad.yield' op gives the state '%s', which is per unit, a value that differs between elements; altgrad.reduce over unit gives one of each unit}}
  altgrad.yield param(%w) state(%g)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %d: f64 per step, hyper %lr: f64) {
  %d1 = mulf %d, %lr : f64
  // rule_c14
  // expected-error@+1 {{'altgrad.yield' op gives the state '%d', which is per step, a value that differs between tensors; altgrad.reduce over step gives one of each step, and a hyper-parameter that the step computes with is written hyper %lr: f64 per step}}
  altgrad.yield param(%w) state(%d1: f64)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %d: f64 per tensor) {
  %s = altgrad.reduce add %g over tensor : f32
  // rule_c17
  // expected-error@+1 {{'altgrad.yield' op gives the state '%d' of 'f64' a new value of 'f32'}}
  altgrad.yield param(%w) state(%s)
}

// -----

// rule_c11
// expected-error@+1 {{a state is per row, per column, per unit, per tensor, per step, per rows x rows or per columns x columns, and a hyper is per step, for a value that all groups share; one of each element has no 'per'}}
altgrad.rule @r(param %w: f32, grad %g: f32, state %d: f32 per group) {
  altgrad.yield param(%w) state(%d)
}

// -----

// rule_c4
// expected-error@+1 {{'altgrad.rule' op gives state '%m' a default; a state of each element begins as 0}}
altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32 = 1.0) {
  altgrad.yield param(%w) state(%g)
}

// -----

// rule_c16
// expected-error@+1 {{'altgrad.rule' op gives state '%k' of i64 the first value 5.000000e-01, which is no whole number}}
altgrad.rule @r(param %w: f32, grad %g: f32, state %k: i64 per step = 0.5) {
  altgrad.yield param(%w) state(%k: i64)
}

// -----

// rule_c3
// expected-error@+1 {{'altgrad.rule' op has state '%s' of type f64, expected f32; write f32, or keep one number per tensor or per step}}
altgrad.rule @r(param %w: f32, grad %g: f32, state %s: f64 per unit) {
  altgrad.yield param(%w) state(%s: f64)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %d: f32 per step) {
  // rule_c10
  // expected-error@+1 {{'altgrad.reduce' op reduces a value that is the same for all elements; leave the reduction out, or the scale of the copy that stores it}}
  %s = altgrad.reduce add %d over step : f32
  altgrad.yield param(%w) state(%s)
}

// -----

altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = element %x
  %p = arith.cmpf ogt, %y, %y : f32
  // reduce_c5
  // expected-error@+1 {{'altgrad.reduce' op combines flags by 'count'; over columns there are 'add', 'sumsq', 'max' and 'absmax', of numbers}}
  %n = reduce count %p over column : i1
  %z = collect %n : f32 to !altgrad.reals
  commit always %z to %w : !altgrad.tensors<f32>
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %c: f32 per column) {
  // expected-error@+1 {{'altgrad.yield' op gives the state '%c', which is per column, a value that differs between elements; altgrad.reduce over column gives one of each column}}
  altgrad.yield param(%w) state(%g)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %c: f32 per column) {
  // expected-error@+1 {{'altgrad.reduce' op reduces a value that is the same for all elements of a column; use the value itself, or reduce what differs within the column}}
  %n = altgrad.reduce add %c over column : f32
  %x = mulf %w, %n : f32
  altgrad.yield param(%x) state(%c)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // random_c1
  // expected-error@+1 {{'altgrad.random' op has the key 32, a number of 0 to 31}}
  %z = altgrad.random normal key(32) : f32
  altgrad.yield param(%z) state()
}
