// RUN: altgrad-opt --rule=%s --emit=report | FileCheck %s
// The check of what products give is of the tensor's elements, not of those of squares that they are computed from.

// CHECK: step fresh_step: {{.*}} sweeps
rule fresh(param w, grad g, row_square l, lr = 0.1)
  l = lerp(l, matmul(g, transpose(g)), 0.1)
  w = w - lr * matmul(l, g)
