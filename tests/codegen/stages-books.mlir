// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=x86-64-v4 | FileCheck %s --check-prefix=FIRST
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=x86-64-v3 | FileCheck %s --check-prefix=CPU
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=sm_80 | FileCheck %s --check-prefix=GPU

// AVX-512 decodes the codes of a book before all else. On a GPU, where other values are computed
// again, what follows from a book waits for the stages behind the reduction.
altgrad.step @s(inout %w: !altgrad.tensors<f32>, inout %v: !altgrad.tensors<bnb8>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>, %c from %v : !altgrad.tensors<bnb8>) reduce()
      store(%w : !altgrad.tensors<f32>, %v : !altgrad.tensors<bnb8>) {
    %d = decode %c format<bnb8> : i8 to f32
    // FIRST: %[[D:.*]] = decode
    // CPU: %[[S:.*]] = arith.addf
    // GPU: %[[S:.*]] = arith.addf
    %s = arith.addf %d, %x : f32
    %m = reduce absmax %s over block<1x256> : f32
    %q = arith.divf %s, %m : f32
    %e = encode %q format<bnb8> round<nearest_even> overflow<saturate> : f32 to i8
    %y = arith.addf %x, %q : f32
    // FIRST: stage keep(%[[D]] : f32) emit []
    // FIRST-NEXT: stage reduce({{.*}}) keep({{.*}}) emit []
    // FIRST-NEXT: stage emit [0, 1]
    // CPU: stage reduce(%{{.*}} : f32) keep(%w_{{[0-9]+}}, %[[S]] : f32, f32) emit []
    // CPU-NEXT: stage emit [0, 1]
    // GPU: stage reduce(%{{.*}} : f32) keep(%[[S]] : f32) emit []
    // GPU-NEXT: stage emit [0, 1]
    emit %y, %e : f32, i8
  }
  commit
}
