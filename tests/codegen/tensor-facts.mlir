// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-vectorize=width=8 --altgrad-lower-to-host --canonicalize --cse | FileCheck %s --check-prefix=HOST
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-vectorize=width=2 --altgrad-fit-resources --altgrad-lower-to-gpu --canonicalize --cse | FileCheck %s --check-prefix=GPU
// Index, tag and extents come out of the row's header: words 1, 2 and 7 to 9, all in
// 64 bits. What they decide alone needs a kernel only where it waits for a sweep.

// HOST-LABEL: llvm.func @altgrad_s_rows_v3
// HOST: llvm.getelementptr %[[ROW:.*]][16]
// HOST: llvm.getelementptr %[[ROW]][64]
// HOST: arith.muli {{.*}} : i64
// HOST-LABEL: llvm.func @altgrad_s_go_v3
// HOST: llvm.getelementptr %{{.*}}[8]
// HOST: %[[BASE:.*]] = arith.addi {{.*}} : i64
// HOST: scf.for %[[I:.*]] =
// HOST: %[[FIRST:.*]] = arith.addi %[[BASE]], %[[I]] : i64
// HOST: %[[ALL:.*]] = vector.broadcast %[[FIRST]] : i64 to vector<8xi64>
// HOST: arith.addi %[[ALL]], %{{.*}} : vector<8xi64>

// A thread counts from the end of its chunk, in 32 bits; the sum has 64.
// GPU-LABEL: llvm.func @altgrad_s_go
// GPU: %[[END:.*]] = arith.addi {{.*}} : i64
// GPU: scf.for %[[AT:.*]] = {{.*}} iter_args
// GPU: %[[BACK:.*]] = arith.extsi %[[AT]] : i32 to i64
// GPU: arith.addi %{{.*}}, %[[BACK]] : i64
// GPU: vector.broadcast {{.*}} : i64 to vector<2xi64>
altgrad.step @s(out %w: !altgrad.tensors<f32>) {
  %k = tag : i64
  %c = dim columns : i64
  %kc = arith.muli %k, %c : i64
  sweep @go load() reduce() store(%w : !altgrad.tensors<f32>) {
    %i = index : i64
    %x = arith.xori %i, %kc : i64
    %f = arith.sitofp %x : i64 to f32
    emit %f : f32
  }
  commit
}

// A word of the header is no launch.
// HOST-NOT: @altgrad_direct_rows_v3
// HOST: llvm.func @altgrad_direct_go_v3
altgrad.step @direct(out %w: !altgrad.tensors<f32>) {
  %k = tag : i64
  sweep @go load() reduce() store(%w : !altgrad.tensors<f32>) {
    %i = index : i64
    %x = arith.xori %i, %k : i64
    %f = arith.sitofp %x : i64 to f32
    emit %f : f32
  }
  commit
}
