// RUN: altgrad-opt %s --pass-pipeline='builtin.module(altgrad.step(altgrad-plan-phases))' | FileCheck %s

// The power of two at or below a tensor's largest number is a scalar of its row.
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %most = sweep @find load(%x from %w : !altgrad.tensors<f32>) reduce(absmax over tensor) store() {
    emit %x : f32
  }
  %power = altgrad.binade %most : f32
  sweep @update load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    %y = arith.mulf %x, %power : f32
    emit %y : f32
  }
  commit
}
// CHECK: phase @rows1 rows {
// CHECK: %[[POWER:.*]] = binade %{{.*}} : f32
// CHECK-NEXT: workspace_store %[[POWER]] in row {{[0-9]+}} : f32
