// RUN: altgrad-opt %s --split-input-file --verify-diagnostics --altgrad-inline-rules="rule-path=%S/Inputs:%S/Inputs/second"
// RUN: not altgrad-opt %s --split-input-file --altgrad-inline-rules 2>&1 | FileCheck %s

// Without a path nothing is found, and the sentence says so.
// CHECK: unknown rule 'absent'; there are {{.*}} or lies as absent.mlir in a folder of --rule-path

altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  // expected-error@+1 {{unknown rule 'absent'}}
  %w1 = update @absent param(%x) grad(%x) state() hyper()
  commit always %w1 to %w : !altgrad.tensors<f32>
}

// -----

altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  // expected-error-re@+1 {{'{{.*}}Inputs/misnamed.mlir' holds no rule 'misnamed'}}
  %w1 = update @misnamed param(%x) grad(%x) state() hyper()
  commit always %w1 to %w : !altgrad.tensors<f32>
}

// -----

// The operands of a rule that was not in the module are checked when it is read.
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  // expected-error@+1 {{'altgrad.update' op gives 0 hyper operands, rule 'scale' wants 1: lr}}
  %w1 = update @scale param(%x) grad(%x) state() hyper()
  commit always %w1 to %w : !altgrad.tensors<f32>
}

// -----

// A state that no options change has no memory to read.
altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32, option %keep: i1 = false) {
  %w1 = subf %w, %m : f32
  altgrad.yield param(%w1) state(%m)
}
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  // expected-error@+1 {{'altgrad.update' op applies rule 'r', which reads state 'm' but never changes it with these options}}
  %w1 = update @r param(%x) grad(%x) state() hyper()
  commit always %w1 to %w : !altgrad.tensors<f32>
}
