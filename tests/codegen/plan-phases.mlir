// RUN: altgrad-opt %s --pass-pipeline='builtin.module(altgrad.step(altgrad-plan-phases))' | FileCheck %s
// RUN: altgrad-opt %s --pass-pipeline='builtin.module(altgrad.step(altgrad-plan-phases{exchange=true}))' | FileCheck %s --check-prefix=EXCHANGE

// A sweep, the folds of what it reduces, what that decides once, what each tensor
// makes of it, and the sweep that waits for both.
altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %lr: f64 per_group, out %norm: f32) {
  %sum = sweep @reduce load(%x from %w : !altgrad.tensors<f32>) reduce(sumsq over step) store() {
    emit %x : f32
  }
  %root = math.sqrt %sum : f32
  %rate = arith.truncf %lr : f64 to f32
  %scale = arith.mulf %rate, %root : f32
  sweep @update load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    %y = arith.mulf %x, %scale : f32
    emit %y : f32
  }
  commit always %root to %norm : f32
}
// CHECK-LABEL: altgrad.step @s(
// CHECK: {{^}}  phase @reduce chunks set 0 {
// CHECK-NEXT: %[[PART:.*]] = sweep @reduce
// CHECK: workspace_store %[[PART]] in chunk 0 : f32
// CHECK: phase @fold1 rows set 0 {
// CHECK-NEXT: %[[OWN:.*]] = fold sumsq chunk 0 : f32
// CHECK-NEXT: workspace_store %[[OWN]] in row 0 : f32
// CHECK: phase @once1 once {
// CHECK-NEXT: %[[SUM:.*]] = total sumsq row 0 : f32
// CHECK: %[[ROOT:.*]] = math.sqrt %[[SUM]]
// CHECK-NEXT: workspace_store %[[ROOT]] in step [[WORD:[0-9]+]] : f32
// CHECK-NEXT: write %[[ROOT]] to %norm : f32
// CHECK: phase @rows1 rows {
// CHECK-NEXT: %[[LR:.*]] = read %lr : f64
// CHECK-NEXT: arith.truncf %[[LR]]
// CHECK-NEXT: workspace_load step [[WORD]] : f32
// CHECK-NEXT: %[[SCALE:.*]] = arith.mulf
// CHECK-NEXT: workspace_store %[[SCALE]] in row 1 : f32
// CHECK: phase @update chunks set 0 {
// CHECK-NEXT: %[[HERE:.*]] = workspace_load row 1 : f32
// CHECK: arith.mulf %{{.*}}, %[[HERE]]
// CHECK: commit{{$}}

// With an exchange, totals are known before anything is made of them.
// EXCHANGE: phase @total1 once exchange {
// EXCHANGE-NEXT: %[[SUM:.*]] = total sumsq row 0 : f32
// EXCHANGE-NEXT: workspace_store %[[SUM]] in step [[WORD:[0-9]+]] : f32
// EXCHANGE-NEXT: }
// EXCHANGE-NEXT: phase @once1 once {
// EXCHANGE-NEXT: workspace_load step [[WORD]] : f32
