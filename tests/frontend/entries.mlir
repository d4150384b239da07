// Entries below a rule have its arguments, as far as a line reads or changes them, and numbers of their own.
// RUN: altgrad-opt --print-rule %s | FileCheck %s
// RUN: altgrad-opt --print-rule %s | altgrad-opt --print-rule - | FileCheck %s
// RUN: altgrad-opt %s --entry=climb --rule=sam --storage="old=ocp.e4m3fn:128" --emit=report | FileCheck %s --check-prefix=CLIMB
// RUN: altgrad-opt --rule=%s --entry=back --storage="old=bf16,stochastic" --print-step | FileCheck %s --check-prefix=BACK
// RUN: not altgrad-opt --rule=%s --entry=clim 2>&1 | FileCheck %s --check-prefix=NONE
// CHECK: altgrad.rule @sam(param %p: f32, grad %g: f32, state %m: f32, state %old: f32, hyper %lr: f64 = 1.000000e-01, step %t: i64) {
// CHECK: yield param(%{{.*}}) state(%{{.*}}, %old)
// CHECK: } {altgrad.entries = ["climb", "back"]}
// CHECK: altgrad.rule @sam_climb(param %p: f32, grad %g: f32, state %old: f32, hyper %rho: f64 = 5.000000e-02) {
// CHECK: yield param(%{{.*}}) state(%p)
// CHECK: } {altgrad.entry_of = "sam"}
// CHECK: altgrad.rule @sam_back(param %p: f32, grad %g: f32, state %old: f32, step %t: i64) {
// CHECK: yield param(%{{.*}}) state(%old)
// CLIMB: step sam_climb_step: 2 sweeps
// What is only read is not written, and neither counted nor drawn for.
// BACK: in state %old: !altgrad.tensors<bf16>
// BACK: in step %t: i64
// BACK-NOT: draws
// NONE: error: rule 'sam' has no entry 'clim'; did you mean 'climb'?
rule sam(param p, grad g, state m old, lr = 0.1, step t)
  m = lerp(m, g, 0.1)
  p = old - lr * m
entry climb(rho = 0.05)
  old = p
  p = p + rho / sqrt(sum(g * g over step)) * g
entry back
  p = old if t > 1 else p
