// RUN: altgrad-opt %s | altgrad-opt | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s

// A phase is what one launch does; what two of them share lies in the workspace.
// CHECK-LABEL: altgrad.step @norm(
altgrad.step @norm(in %g: !altgrad.tensors<f32>, in %h: !altgrad.tensors<f32> set 1,
                   in %limit: f32, out %norm: f32, inout %t: i64 per_tensor) {
  // CHECK: phase @reduce1 chunks set 1 {
  // CHECK-NEXT: %[[SUM:.*]] = sweep @reduce1
  // CHECK: workspace_store %[[SUM]] in chunk 0 : f32
  phase @reduce1 chunks set 1 {
    %sum = sweep @reduce1 load(%x from %h : !altgrad.tensors<f32>) reduce(sumsq over step) store() {
      emit %x : f32
    }
    workspace_store %sum in chunk 0 : f32
  }
  // CHECK: phase @fold rows set 1 {
  // CHECK-NEXT: fold sumsq chunk 0 : f32
  phase @fold rows set 1 {
    %sum = fold sumsq chunk 0 : f32
    workspace_store %sum in row 0 : f32
  }
  // CHECK: phase @total once exchange {
  // CHECK-NEXT: total sumsq row 0 set 1 : f32
  phase @total once exchange {
    %sum = total sumsq row 0 set 1 : f32
    workspace_store %sum in step 0 : f32
  }
  // CHECK: phase @once once {
  // CHECK: workspace_load step 0 : f32
  // CHECK: read %limit : f32
  // CHECK: write %{{.*}} to %norm if %{{.*}} : f32
  phase @once once {
    %sum = workspace_load step 0 : f32
    %limit1 = read %limit : f32
    %less = arith.cmpf olt, %sum, %limit1 : f32
    write %sum to %norm if %less : f32
  }
  // CHECK: phase @rows rows {
  phase @rows rows {
    %n = read %t : i64
    write %n to %t : i64
  }
  commit
}
