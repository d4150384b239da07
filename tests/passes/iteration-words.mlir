// RUN: altgrad-opt %s --altgrad-inline-rules="rule-path=%templates" | FileCheck %s
// RUN: not altgrad-opt --rule=muon{steps=9,coefficients=you} --rule-path=%templates --emit=report 2>&1 | FileCheck %s --check-prefix=STEPS
// RUN: not altgrad-opt --rule=muon{stops=9} --rule-path=%templates --emit=report 2>&1 | FileCheck %s --check-prefix=WORD
// RUN: not altgrad-opt --rule=adamw{steps=9} --rule-path=%templates --emit=report 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not altgrad-opt --rule=muon{in=f32,plain,in=bf16} --rule-path=%templates --emit=report 2>&1 | FileCheck %s --check-prefix=BOTH

// Words among the options change the iteration of a rule.
// CHECK: orthogonalize %{{.*}} equal rows alone coefficients<[3.4445{{[0-9e+]*}}, -4.775{{[0-9e+]*}}, 2.0315{{[0-9e+]*}}]> steps<8> in<f32> length<added>
// CHECK: scale_by_shape match_rms
// CHECK: apply_step %{{.*}} cautious : f32
// STEPS: 'altgrad.orthogonalize' op has 9 steps; these coefficients are for 5 steps
// WORD: rule 'muon' has no option 'stops=9'
// NONE: rule 'adamw' has no option 'steps=9'
// BOTH: error: rule 'muon' has the options 'in=f32' and 'in=bf16'; leave one out
altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>, inout %b: !altgrad.tensors<f32>,
    in %lr: f64, in %momentum: f64, in %decay: f64, in %eps: f64) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %g : !altgrad.tensors<f32>
  %z = dequantize %b : !altgrad.tensors<f32>
  %x1, %b1 = update @muon {plain, "steps=8", "in=f32", "length=added", "equal=rows", "batches=none", "scale=match_rms", "decay=cautious", "coefficients=3.4445/-4.775/2.0315"}
      param(%x) grad(%y) state(%z) hyper(%lr, %momentum, %decay, %eps)
  commit always %x1 to %w : !altgrad.tensors<f32>, %b1 to %b : !altgrad.tensors<f32>
}
