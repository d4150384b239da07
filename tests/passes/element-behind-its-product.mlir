// RUN: altgrad-opt --rule=%s --emit=report | FileCheck %s
// What was multiplied is wanted as an element behind the product, when the buffer of its matrix may be another's.

// CHECK: step again_step: {{.*}} sweeps
altgrad.rule @again(param %p: f32, grad %g: f32, state %m: f32, hyper %lr: f64 = 0.1) {
  %w = arith.addf %m, %g : f32
  %0 = altgrad.matrix %w : !altgrad.tensors<f32>
  %1 = altgrad.gram %0 : !altgrad.tensors<f32>
  %2 = altgrad.product %1, %0 by 1.0 : !altgrad.tensors<f32>
  %3 = altgrad.entry %2 : !altgrad.tensors<f32>
  %4 = arith.mulf %w, %3 : f32
  %5 = altgrad.reduce add %4 over tensor : f32
  %6 = arith.divf %w, %5 : f32
  %7 = altgrad.matrix %6 : !altgrad.tensors<f32>
  %8 = altgrad.gram %7 : !altgrad.tensors<f32>
  %9 = altgrad.product %8, %7 by 1.0 : !altgrad.tensors<f32>
  %10 = altgrad.entry %9 : !altgrad.tensors<f32>
  %11 = arith.truncf %lr : f64 to f32
  %12 = arith.mulf %11, %10 : f32
  %13 = arith.subf %p, %12 : f32
  altgrad.yield param(%13) state(%w)
}
