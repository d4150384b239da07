// RUN: altgrad-opt %s --pass-pipeline='builtin.module(altgrad-sweeps,altgrad.step(altgrad-plan-phases))' | FileCheck %s
// RUN: altgrad-opt %s --target=sm_90 --emit=ptx | FileCheck %s --check-prefix=PTX
// RUN: not altgrad-opt %s --exchange --emit=report 2>&1 | FileCheck %s --check-prefix=ALONE
// ALONE: 'altgrad.across' op is a sum that other devices' cannot join: leave out --exchange

// What each tensor makes of its sum waits in its row for the sum over tensors; a history
// is read where it lies, and written after it.
altgrad.step @s(in %g: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<f32>, inout history %past: f32,
                in %k: f32) {
  %x = dequantize %g : !altgrad.tensors<f32>
  %n = norm l1 %x over tensor
  %short = round %n format<bf16>
  %sum = across %short
  %bound = percentile %past with %sum at %k
  %y = scale %x by %bound
  commit always %sum to %past : f32, %y to %w : !altgrad.tensors<f32>
}
// CHECK-LABEL: altgrad.step @s(
// CHECK: phase @fold1 rows set 0 {
// CHECK: phase @rows1 rows {
// CHECK: %[[SHORT:.*]] = round %{{.*}} format<bf16>
// CHECK-NEXT: workspace_store %[[SHORT]] in row [[ROW:[0-9]+]] : f32
// CHECK: phase @once2 once {
// CHECK-NEXT: %[[SUM:.*]] = total add row [[ROW]] : f32
// CHECK-NOT: read %past
// CHECK: percentile %past with %[[SUM]] at
// CHECK: write %[[SUM]] to %past : f32
// CHECK: phase @update1 chunks set 0 {

// A thread of the last block counts, in rolled loops, and no launch is made for it.
// PTX: .visible .entry altgrad_s_reduce0
// PTX: setp.lt.u32
// PTX: .pragma "nounroll"
