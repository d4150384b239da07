// Roles, names behind one role, defaults, several rules in one text.
// RUN: altgrad-opt --print-rule %s | FileCheck %s
// RUN: altgrad-opt %s --rule=first{second} --emit=report | FileCheck %s --check-prefix=REPORT
// REPORT: step first_step: 1 sweep, 24 bytes per element
// CHECK: altgrad.rule @first(param %w: f32, value %x: f32, grad %g: f32, state %m: f32, state %n: f32, hyper %lr: f64, hyper %beta: f64 = -5.000000e-01, hyper %third: f64 = 0.33333333333333331, step %t: i64, option %fast: i1 = true, option %second: i1 = false) {
// CHECK: } {altgrad.step_bound = "adam"}
// CHECK: altgrad.rule @last(param %step: f32, grad %param: f32, hyper %state: f64 = 1.000000e+00) {
rule first(param w, value x, grad g, state m n, hyper lr, beta = -0.5, third = 1/3, step t, option fast = true, // here, too
           option second) step_bound adam
  n = x if second else n
  m = m + g if fast else m

  w = w - lr *
      m // goes on behind a sign

// Words of the signature may be names.
rule last(param step, grad param, state = 1.0)
  step = step - (param
                 * state)
