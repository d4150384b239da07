// RUN: altgrad-opt %s --altgrad-inline-rules="rule-path=%S/Inputs/second" | FileCheck %s --check-prefix=SECOND
// RUN: altgrad-opt %s --altgrad-inline-rules="rule-path=%S/Inputs:%S/Inputs/second" | FileCheck %s --check-prefix=FIRST
// RUN: sed s/scale/broken/ %s > %t.mlir
// RUN: not altgrad-opt %t.mlir --altgrad-inline-rules="rule-path=%S/Inputs" 2>&1 | FileCheck %s --check-prefix=BROKEN

// The first folder that has the file wins; others serve what it lacks.
altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %lr: f64) {
  %x = dequantize %w : !altgrad.tensors<f32>
  // FIRST: arith.mulf
  // SECOND-NOT: arith.mulf
  // BROKEN: Inputs/broken.mlir:2:17: error: a value is expected here, whose name begins with %
  %w1 = update @scale param(%x) grad(%x) state() hyper(%lr)
  // FIRST: arith.negf
  // SECOND: arith.negf
  %w2 = update @copy param(%w1) grad(%w1) state() hyper()
  commit always %w2 to %w : !altgrad.tensors<f32>
}
