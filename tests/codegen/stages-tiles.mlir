// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=x86-64-v3 | FileCheck %s
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=sm_80 | FileCheck %s

// What waits for the largest of a column becomes a sweep of its own over numbers that the first one
// leaves: the reduction, what a column stores and its elements share, the elements.
// CHECK: phase @go
// CHECK: %[[TILE:.*]] = spill : !altgrad.tensors<f32>
// CHECK-NEXT: sweep @go load({{.*}} from %w
// CHECK-SAME: store(%w : !altgrad.tensors<f32>, %[[TILE]] : !altgrad.tensors<f32>) {
// CHECK-NEXT: %[[Y:.*]] = math.sqrt
// CHECK-NEXT: emit %[[Y]], %[[Y]] : f32, f32
// CHECK: sweep @go load(%[[N:.*]] from %[[TILE]] : !altgrad.tensors<f32>)
// CHECK-SAME: store(%top : !altgrad.tensors<f32 per 32x1>, %c : !altgrad.tensors<f32>) {
// CHECK-NEXT: %[[M:.*]] = reduce absmax %[[N]] over block<32x1>
// CHECK-NEXT: %[[K:.*]] = arith.addf %[[M]]
// CHECK-NEXT: %[[Z:.*]] = arith.divf %[[N]], %[[K]]
// CHECK-NEXT: stage reduce(%[[M]] : f32) emit []
// CHECK-NEXT: stage keep(%[[K]] : f32) emit [0]
// CHECK-NEXT: stage emit [1]
// CHECK-NEXT: emit %[[M]], %[[Z]] : f32, f32
altgrad.step @s(inout %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>, out %c: !altgrad.tensors<f32>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce()
      store(%w : !altgrad.tensors<f32>, %top : !altgrad.tensors<f32 per 32x1>, %c : !altgrad.tensors<f32>) {
    %y = math.sqrt %x : f32
    %m = reduce absmax %y over block<32x1> : f32
    %k = arith.addf %m, %m : f32
    %z = arith.divf %y, %k : f32
    emit %y, %m, %z : f32, f32, f32
  }
  commit
}
