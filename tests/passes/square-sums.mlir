// RUN: altgrad-opt --rule=%s --print-step > %t.mlir
// RUN: altgrad-opt %t.mlir --altgrad-inline-rules=rule-path=%S --altgrad-expand-gradients --altgrad-expand-matrices --altgrad-expand-formats --altgrad-split-sweeps | FileCheck %s
// RUN: altgrad-opt %t.mlir --altgrad-inline-rules=rule-path=%S --altgrad-expand-gradients --altgrad-expand-matrices --altgrad-expand-formats --altgrad-split-sweeps --altgrad-plan-phases | FileCheck %s --check-prefix=PHASES
// A sum of a square is a sweep over it, whose partial sums are folded apart from those of the elements. A matrix times a
// list is a sum of its rows or columns, and no product.

// CHECK: altgrad.step @sums_step
// CHECK-NOT: multiply
// CHECK: %[[L:.*]] = sweep @reduce0 walk row_squares load(%{{.*}} from %l : {{.*}}) reduce(add over tensor) store()
// CHECK: sweep @reduce0 load(%{{.*}} from %g : {{.*}}) reduce(sumsq over tensor) store()

// PHASES: workspace_store %{{.*}} in chunk 0
// PHASES: workspace_store %{{.*}} in chunk 0
// PHASES-DAG: fold add chunk 0 of row_squares over tensor : f32
// PHASES-DAG: fold sumsq chunk 0 over tensor : f32
rule sums(param w, grad g, row_square l, column c, lr = 0.1)
  n = sum(l) + norm(g)
  l = l / 2
  w = w - lr / n * matmul(g, c)
  c = matmul(transpose(g), matmul(g, c))
