// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=x86-64-v3 --altgrad-vectorize=width=8 --altgrad-lower-to-host --canonicalize --cse | FileCheck %s --check-prefix=HOST
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=sm_80 --altgrad-vectorize=width=2 --altgrad-fit-resources --altgrad-lower-to-gpu --canonicalize --cse | FileCheck %s --check-prefix=GPU

// A sweep over tiles reads each element once: rows first, then columns of what they left
// in memory of the kernel.
// HOST-LABEL: llvm.func @altgrad_s_go_v3
// HOST: %[[TILE:.*]] = llvm.alloca %{{.*}} x f32 {alignment = 64 : i64}
// HOST: arith.divui
// HOST: llvm.load {{.*}} -> vector<8xf32>
// HOST: math.sqrt {{.*}} : vector<8xf32>
// HOST-NOT: math.sqrt {{.*}} : vector
// HOST: scf.for {{.*}} -> (vector<8xf32>)
// HOST: arith.maxsi {{.*}} : vector<8xi32>
// HOST: arith.maxsi {{.*}} : i32
// HOST: arith.divf {{.*}} : vector<8xf32>

// A block of threads does a tile; each of them half a column behind the barrier.
// GPU: llvm.mlir.global internal @altgrad_s_go_tile() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<16384 x i8>
// GPU: llvm.mlir.global internal @altgrad_s_go_halves() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<1024 x i8>
// GPU-LABEL: llvm.func @altgrad_s_go
// GPU: math.sqrt
// GPU: nvvm.barrier
// GPU-NOT: math.sqrt
// GPU: arith.maxsi
// GPU: nvvm.barrier
// GPU: nvvm.barrier
altgrad.step @s(inout %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>, out %c: !altgrad.tensors<f32>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce()
      store(%w : !altgrad.tensors<f32>, %top : !altgrad.tensors<f32 per 32x1>, %c : !altgrad.tensors<f32>) {
    %y = math.sqrt %x : f32
    %m = reduce absmax %y over block<32x1> : f32
    %z = arith.divf %y, %m : f32
    emit %y, %m, %z : f32, f32, f32
  }
  commit
}

// A square is one more kind: its numbers are in dynamic shared memory, and 32 of its
// rows are done at once.
// GPU: llvm.mlir.global external @altgrad_t_go_tile() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<0 x i8>
// GPU-LABEL: llvm.func @altgrad_t_go
// GPU: scf.for
// GPU: math.sqrt
// GPU: nvvm.barrier
// GPU: nvvm.shfl.sync bfly
// GPU-NOT: math.sqrt
altgrad.step @t(inout %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 128x128>, out %c: !altgrad.tensors<f32>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce()
      store(%w : !altgrad.tensors<f32>, %top : !altgrad.tensors<f32 per 128x128>, %c : !altgrad.tensors<f32>) {
    %y = math.sqrt %x : f32
    %m = reduce absmax %y over block<128x128> : f32
    %z = arith.divf %y, %m : f32
    emit %y, %m, %z : f32, f32, f32
  }
  commit
}
