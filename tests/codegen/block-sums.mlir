// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=x86-64-v3 --altgrad-vectorize=width=8 --altgrad-lower-to-host --canonicalize --cse | FileCheck %s --check-prefix=HOST
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=sm_80 --altgrad-vectorize=width=2 --altgrad-fit-resources --altgrad-lower-to-gpu --canonicalize --cse | FileCheck %s --check-prefix=GPU

// Neighbours are added in pairs: on a host even and odd elements of two vectors, from memory of the kernel.
// HOST-LABEL: llvm.func @altgrad_s_go_v3
// HOST: arith.mulf {{.*}} : vector<8xf32>
// HOST: %[[A:.*]] = vector.shuffle %[[X:.*]], %[[Y:.*]] [0, 2, 4, 6, 8, 10, 12, 14] : vector<8xf32>, vector<8xf32>
// HOST: %[[B:.*]] = vector.shuffle %[[X]], %[[Y]] [1, 3, 5, 7, 9, 11, 13, 15] : vector<8xf32>, vector<8xf32>
// HOST: arith.addf %[[A]], %[[B]] : vector<8xf32>
// HOST: vector.shuffle %{{.*}} [0, 2, 4, 6]
// HOST: vector.shuffle %{{.*}} [0, 2]

// A thread adds its own first, then those of the threads beside it.
// GPU-LABEL: llvm.func @altgrad_s_go
// GPU: arith.mulf {{.*}} : vector<2xf32>
// GPU: %[[LOW:.*]] = arith.addf
// GPU: %[[HIGH:.*]] = arith.addf
// GPU: arith.addf %[[LOW]], %[[HIGH]]
// GPU: scf.for {{.*}} -> (vector<4xf32>)
// GPU: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c1_i32,
// GPU: arith.addf
// GPU: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c2_i32,
// GPU: arith.addf
// GPU: nvvm.shfl.sync bfly %{{.*}}, %{{.*}}, %c4_i32,
altgrad.step @s(inout %w: !altgrad.tensors<f32>, out %v: !altgrad.tensors<f32 per 1x32>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce()
      store(%w : !altgrad.tensors<f32>, %v : !altgrad.tensors<f32 per 1x32>) {
    %s = reduce sumsq %x over block<1x32> : f32
    %y = arith.divf %x, %s : f32
    emit %y, %s : f32, f32
  }
  commit
}

// A column is two halves, each in the order of its rows; 256 halves of a square are a tree.
// HOST-LABEL: llvm.func @altgrad_t_go_v3
// HOST: scf.for {{.*}} -> (vector<8xf32>)
// HOST: math.fma {{.*}} : vector<8xf32>
// HOST: scf.for {{.*}} -> (vector<8xf32>)
// HOST: math.fma {{.*}} : vector<8xf32>
// HOST: arith.addf {{.*}} : vector<8xf32>
// GPU-LABEL: llvm.func @altgrad_t_go
// GPU: math.fma
// GPU: nvvm.barrier
// GPU-COUNT-7: arith.addf
// GPU: nvvm.shfl.sync bfly
altgrad.step @t(inout %w: !altgrad.tensors<f32>, out %v: !altgrad.tensors<f32 per 128x128>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce()
      store(%w : !altgrad.tensors<f32>, %v : !altgrad.tensors<f32 per 128x128>) {
    %s = reduce sumsq %x over block<128x128> : f32
    %y = arith.divf %x, %s : f32
    emit %y, %s : f32, f32
  }
  commit
}
