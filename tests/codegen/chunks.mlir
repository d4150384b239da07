// RUN: altgrad-opt --rule=sgd --clip --rule-path=%templates --emit=manifest | FileCheck %s --check-prefix=MANIFEST
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-vectorize=width=2 --altgrad-fit-resources --altgrad-lower-to-gpu --canonicalize --cse | FileCheck %s

// A warp does a chunk where there are sums to keep apart, otherwise a block.
// MANIFEST: "name": "reduce0"
// MANIFEST-NEXT: "per_block": 8
// MANIFEST: "name": "update1"
// MANIFEST-NEXT: "per_block": 1

// The first pass over the lists of a set begins with the first chunk.
// CHECK-LABEL: llvm.func @altgrad_s_norm(
// CHECK-SAME: %[[BEGIN:arg[0-9]+]]: i64, %[[END:arg[0-9]+]]: i64) attributes
// CHECK: %[[FIRST:.*]] = arith.addi %[[BEGIN]],
// CHECK: scf.for %[[INDEX:.*]] = %[[FIRST]] to %[[END]] step
// CHECK-NEXT: arith.muli %[[INDEX]],

// The second one begins with the last: its elements are in the cache.
// CHECK-LABEL: llvm.func @altgrad_s_scale(
// CHECK-SAME: %[[BEGIN:arg[0-9]+]]: i64, %[[END:arg[0-9]+]]: i64) attributes
// CHECK: %[[BEYOND:.*]] = arith.subi %[[END]],
// CHECK: %[[LAST:.*]] = arith.subi %[[BEYOND]], %c1_i64
// CHECK: scf.while (%[[INDEX:.*]] = %[[LAST]])
// CHECK-NEXT: arith.cmpi sge, %[[INDEX]], %[[BEGIN]]
// CHECK: scf.for {{.*}} to %c0_i32 step %c1024_i32

// Another set's are not.
// CHECK-LABEL: llvm.func @altgrad_s_other(
// CHECK-NOT: arith.subi {{.*}} : i64
// CHECK: scf.for
altgrad.step @s(inout %w: !altgrad.tensors<f32>, inout %x: !altgrad.tensors<f32> set 1, out %n: f32) {
  %sum = sweep @norm load(%a from %w : !altgrad.tensors<f32>) reduce(sumsq over step) store() {
    emit %a : f32
  }
  sweep @scale load(%a from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    %b = arith.mulf %a, %sum : f32
    emit %b : f32
  }
  sweep @other load(%a from %x : !altgrad.tensors<f32>) reduce() store(%x : !altgrad.tensors<f32>) {
    %b = arith.addf %a, %a : f32
    emit %b : f32
  }
  commit always %sum to %n : f32
}
