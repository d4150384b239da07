// RUN: altgrad-opt %s --altgrad-hoist-uniform --altgrad-vectorize="width=8" | FileCheck %s
// One analysis says what differs per element: it becomes a vector; per tensor or
// less: it leaves the sweep.

// CHECK-LABEL: @degrees
altgrad.step @degrees(inout %w: !altgrad.tensors<bf16>, in %lr: f32 per_group, in %t: f32 per_tensor, in %s: f32) {
  %sum = sweep @one load(%c from %w : !altgrad.tensors<bf16>) reduce(add over tensor) store() {
    %x = decode %c format<bf16> : i16 to f32
    emit %x : f32
  }
  // CHECK: %[[A:.*]] = arith.addf %lr, %s : f32
  // CHECK-NEXT: %[[B:.*]] = arith.addf %[[A]], %t : f32
  // CHECK-NEXT: %[[OF_SUM:.*]] = arith.addf %[[B]], %{{.*}} : f32
  // CHECK-NEXT: sweep @two
  // CHECK: wide 8
  // The code of a uniform number is one for each element all the same.
  // CHECK-NEXT: vector.broadcast %[[OF_SUM]] : f32 to vector<8xf32>
  // CHECK-NEXT: encode {{.*}} : vector<8xf32> to vector<8xi16>
  // CHECK-NEXT: emit {{.*}} : vector<8xi16>
  sweep @two load() reduce() store(%w : !altgrad.tensors<bf16>) {
    %a = arith.addf %lr, %s : f32
    %b = arith.addf %a, %t : f32
    %d = arith.addf %b, %sum : f32
    %e = encode %d format<bf16> round<nearest_even> overflow<nonfinite> : f32 to i16
    emit %e : i16
  }
  commit
}
