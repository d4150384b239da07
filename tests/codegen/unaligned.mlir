// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-vectorize=width=2 --altgrad-fit-resources --altgrad-lower-to-gpu --canonicalize --cse | FileCheck %s

// What vectors do not do neighbouring threads do, four elements of each at a time, a
// block apart. Where the tensors are is looked up again.
// CHECK-LABEL: llvm.func @altgrad_s_scale(
// CHECK: scf.for {{.*}} to %c-3_i32 step %c1024_i32
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: arith.andi %{{.*}}, %c1048579_i32
// CHECK: llvm.inline_asm has_side_effects "mov.b64 $0, $1;"
// CHECK: llvm.load {{.*}} invariant
// CHECK: scf.for {{.*}} to %c0_i32 step %c1024_i32
// CHECK: llvm.load {{.*}} -> f32
// CHECK-NEXT: %[[NEXT:.*]] = llvm.getelementptr %{{.*}}[1024]
// CHECK-NEXT: llvm.load %[[NEXT]] {{.*}} -> f32
// CHECK: llvm.getelementptr %{{.*}}[3072]
// CHECK: llvm.store {{.*}} : f32
// One by one, where a group has fewer.
// CHECK: scf.for {{.*}} step %c256_i32

// With sums a warp's elements are neighbours, eight of each thread its lanes; vectors
// do all of a chunk, or nothing.
// CHECK-LABEL: llvm.func @altgrad_s_norm(
// CHECK: %[[REST:.*]] = arith.andi %{{.*}}, %c3_i32
// CHECK: %[[NONE:.*]] = arith.cmpi eq, %[[REST]], %c0_i32
// CHECK: arith.andi %{{.*}}, %[[NONE]]
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: scf.for {{.*}} to %c0_i32 step %c256_i32
// CHECK: llvm.load {{.*}} -> f32
// CHECK-NEXT: %[[NEXT:.*]] = llvm.getelementptr %{{.*}}[128]
// CHECK-NEXT: llvm.load %[[NEXT]] {{.*}} -> f32
// CHECK: scf.for {{.*}} step %c32_i32
altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %v: !altgrad.tensors<f32> set 1, out %n: f32) {
  sweep @scale load(%a from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    %b = arith.mulf %a, %a : f32
    emit %b : f32
  }
  %sum = sweep @norm load(%a from %v : !altgrad.tensors<f32>) reduce(sumsq over step) store() {
    emit %a : f32
  }
  commit always %sum to %n : f32
}
