// RUN: not altgrad-opt %s --emit=report 2>&1 | FileCheck %s

// %a is written in the rows of all sets, %b in those of set 0 alone, which come
// later; each from the other.
// CHECK: write-circle.mlir:[[#@LINE+10]]:3: error: 'altgrad.commit' op exchanges scalars that no single phase can write
altgrad.step @circle(in %w: !altgrad.tensors<f32>, in %v: !altgrad.tensors<f32> set 1,
                     inout %a: f32 per_tensor, inout %b: f32 per_tensor) {
  %one = arith.constant 1.0 : f32
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %most = reduce max %e over tensor : f32
  %small = arith.cmpf olt, %most, %one : f32

  // The old values, exchanged.
  commit always %b to %a : f32 if %small %a to %b : f32
}
