// RUN: altgrad-opt %s --altgrad-sweeps --remarks-filter=altgrad 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// The update u of LAMB costs three streams to compute, four bytes to keep: it
// goes to the workspace. New states are stored while they are at hand.
altgrad.rule @trust(param %w: f32, grad %g: f32, state %m: f32, state %v: f32) {
  %m1 = addf %m, %g : f32
  %v1 = math.fma %g, %g, %v : f32
  %u = divf %m1, %v1 : f32
  %wsum = altgrad.reduce sumsq %w over tensor : f32
  %usum = altgrad.reduce sumsq %u over tensor : f32
  %ratio = divf %wsum, %usum : f32
  %d = mulf %ratio, %u : f32
  %w1 = subf %w, %d : f32
  altgrad.yield param(%w1) state(%m1, %v1)
}

// REMARK: [[#@LINE+2]]:1: remark: [Passed] split | Category:altgrad | Reason=spill, recompute-bytes=44, spill-bytes=40
// CHECK-LABEL: @step
altgrad.step @step(in %grads: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<f32>,
                   inout %m: !altgrad.tensors<f32>, inout %v: !altgrad.tensors<f32>) {
  // CHECK: %[[KEPT:.*]] = spill : !altgrad.tensors<f32>
  // CHECK: %[[SUMS:.*]]:2 = sweep @update0 load(
  // CHECK-SAME: reduce(sumsq over tensor, sumsq over tensor)
  // CHECK-SAME: store(%m : {{.*}}, %v : {{.*}}, %[[KEPT]] : !altgrad.tensors<f32>) {
  // CHECK: %[[U:.*]] = arith.divf
  // CHECK: emit %{{.*}}, %[[U]], %{{.*}}, %{{.*}}, %[[U]] : f32, f32, f32, f32, f32
  // CHECK: arith.divf %[[SUMS]]#0, %[[SUMS]]#1
  // CHECK: sweep @update1 load(%{{.*}} from %w : !altgrad.tensors<f32>, %[[K:.*]] from %[[KEPT]] : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
  // CHECK-NEXT: arith.mulf %{{.*}}, %[[K]]
  %g0 = dequantize %grads : !altgrad.tensors<f32>
  %w0 = dequantize %w : !altgrad.tensors<f32>
  %m0 = dequantize %m : !altgrad.tensors<f32>
  %v0 = dequantize %v : !altgrad.tensors<f32>
  %w1, %m1, %v1 = update @trust param(%w0) grad(%g0) state(%m0, %v0) hyper()
  commit always %w1 to %w : !altgrad.tensors<f32>, %m1 to %m : !altgrad.tensors<f32>,
      %v1 to %v : !altgrad.tensors<f32>
}
