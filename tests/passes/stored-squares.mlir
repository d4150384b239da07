// RUN: altgrad-opt --rule=%s --print-step > %t.mlir
// RUN: altgrad-opt %t.mlir --altgrad-inline-rules=rule-path=%S --altgrad-expand-gradients --altgrad-expand-matrices --altgrad-expand-formats --altgrad-split-sweeps | FileCheck %s
// RUN: altgrad-opt --rule=%s --emit=report | FileCheck %s --check-prefix=REPORT
// What is multiplied as it is stored is no list in the workspace. What is computed before it is multiplied is one.

// CHECK: altgrad.step @stored_step
// CHECK: multiply matmul %g, %g transposed into
// CHECK: sweep @row_squares_update0 {{.*}} store(%[[NEXT:[0-9]+]] : !altgrad.tensors<f32 per rows x rows>)
// CHECK-DAG: multiply matmul %q transposed, %g into
// CHECK-DAG: multiply matmul %[[NEXT]], %g into

// REPORT: row_squares_update0 chunks 8 read, 4 written for each of rows x rows
// REPORT: squares: 8 bytes of states for each of rows x rows, 0 for each of columns x columns; workspace 8 and 0
rule stored(param w, grad g, row_square l q, lr = 0.1, option turn)
  l = lerp(l, matmul(g, transpose(g)), 0.1)
  q = orthonormal(l) if turn else q
  w = w - lr * matmul(transpose(q), g) - lr * matmul(l, g)
