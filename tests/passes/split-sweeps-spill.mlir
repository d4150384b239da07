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

// Keeping a value costs four bytes to write and four to read. %h + %k, six bytes
// to load, is computed again beside the kept one that costs twelve.
// REMARK: remark: [Passed] split | Category:altgrad | Reason=spill, recompute-bytes=40, spill-bytes=36
// CHECK-LABEL: @loaded_again
// CHECK: %[[KEPT:.*]] = spill : !altgrad.tensors<f32>
// CHECK: sweep @update1 load(%{{[a-z0-9_]+}} from %[[KEPT]] : {{[^,]*}}, %{{[a-z0-9_]+}} from %h : {{[^,]*}}, %{{[a-z0-9_]+}} from %k :
altgrad.step @loaded_again(in %a: !altgrad.tensors<f32>, in %b: !altgrad.tensors<f32>, in %c: !altgrad.tensors<f32>,
                           in %h: !altgrad.tensors<f32>, in %k: !altgrad.tensors<bf16>, out %o: !altgrad.tensors<f32>) {
  %ar = dequantize %a : !altgrad.tensors<f32>
  %ae = element %ar
  %br = dequantize %b : !altgrad.tensors<f32>
  %be = element %br
  %cr = dequantize %c : !altgrad.tensors<f32>
  %ce = element %cr
  %hr = dequantize %h : !altgrad.tensors<f32>
  %he = element %hr
  %kr = dequantize %k : !altgrad.tensors<bf16>
  %ke = element %kr
  %p = arith.addf %ae, %be : f32
  %v = arith.mulf %p, %ce : f32
  %u = arith.addf %he, %ke : f32
  %both = arith.mulf %v, %u : f32
  %sum = reduce sumsq %both over tensor : f32
  %w = arith.mulf %v, %sum : f32
  %x = arith.addf %w, %u : f32
  %xs = collect %x : f32 to !altgrad.reals
  commit always %xs to %o : !altgrad.tensors<f32>
}
