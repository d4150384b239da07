// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=x86-64-v3 --altgrad-vectorize=width=8 --altgrad-lower-to-host --canonicalize --cse | FileCheck %s --check-prefix=HOST
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=sm_80 --altgrad-vectorize=width=2 --altgrad-fit-resources --altgrad-lower-to-gpu --canonicalize --cse | FileCheck %s --check-prefix=GPU

// Block by block: the largest, then the elements; the last, short one element by
// element. Old content is read before the block's new one is stored.
// HOST-LABEL: llvm.func @altgrad_s_go_v3
// HOST: scf.for {{.*}} step %c32_i64
// HOST: %[[OLD:.*]] = llvm.load {{.*}} -> f32
// HOST: scf.for {{.*}} step %c8_i64 {{.*}} -> (vector<8xf32>)
// HOST: arith.maximumf {{.*}} : vector<8xf32>
// HOST: vector.extract {{.*}}[0] : f32
// HOST: scf.for {{.*}} step %c8_i64
// HOST: vector.broadcast %[[OLD]] : f32 to vector<8xf32>
// HOST: scf.if
// HOST: scf.for {{.*}} step %c1_i64 {{.*}} -> (f32)
// HOST: scf.for {{.*}} step %c1_i64

// Eight threads do a block of 32, four elements each: three exchanges.
// GPU-LABEL: llvm.func @altgrad_s_go
// GPU: nvvm.shfl.sync idx
// GPU-COUNT-3: nvvm.shfl.sync bfly
// GPU-NOT: shfl
altgrad.step @s(inout %w: !altgrad.tensors<f32>, inout %top: !altgrad.tensors<f32 per 1x32>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>, %old from %top : !altgrad.tensors<f32 per 1x32>) reduce()
      store(%w : !altgrad.tensors<f32>, %top : !altgrad.tensors<f32 per 1x32>) {
    %m = reduce max %x over block<1x32> : f32
    %n = arith.addf %m, %old : f32
    %y = arith.divf %x, %n : f32
    emit %y, %n : f32, f32
  }
  commit
}
