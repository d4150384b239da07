// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=x86-64-v3 | FileCheck %s --check-prefix=CPU
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=sm_80 | FileCheck %s --check-prefix=GPU

// What is computed before a block's largest is known waits on a CPU; a GPU computes it again. What the
// elements of a block share waits nowhere, and what is ready is stored at once, on a CPU.
altgrad.step @s(inout %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 1x16>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce()
      store(%w : !altgrad.tensors<f32>, %top : !altgrad.tensors<f32 per 1x16>) {
    // CPU: %[[R:.*]] = math.sqrt
    // CPU: %[[M:.*]] = reduce absmax %[[R]]
    // CPU: %[[Y:.*]] = arith.divf %[[R]]
    // CPU: %[[N:.*]] = reduce max %[[Y]]
    // CPU-NEXT: stage reduce(%[[M]] : f32) keep(%[[R]] : f32) emit []
    // CPU-NEXT: stage reduce(%[[N]] : f32) emit [0]
    // CPU-NEXT: stage emit [1]
    // GPU: stage reduce(%{{.*}} : f32) emit []
    // GPU-NEXT: stage reduce(%{{.*}} : f32) emit []
    // GPU-NEXT: stage emit [0, 1]
    %r = math.sqrt %x : f32
    %m = reduce absmax %r over block<1x32> : f32
    %k = arith.addf %m, %m : f32
    %y = arith.divf %r, %k : f32
    %n = reduce max %y over block<1x16> : f32
    emit %y, %n : f32, f32
  }
  commit
}
