// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages --altgrad-vectorize=width=2 --altgrad-fit-resources | FileCheck %s
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages --altgrad-vectorize=width=2 --altgrad-fit-resources=shared=24576 | FileCheck %s --check-prefix=LESS
// RUN: not altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages --altgrad-vectorize=width=2 --altgrad-fit-resources=shared=1024 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages --altgrad-vectorize=width=2 --altgrad-lower-to-gpu 2>&1 | FileCheck %s --check-prefix=LATE

// Two sums have eight lanes of each thread, 8 KB of a block; what the largest and the rest both look up in a code book
// waits there, too. With fewer bytes what comes last is computed again. The tables must have room.
// CHECK: phase @go chunks
// CHECK: stage reduce({{.*}}) keep(%{{.*}} : f32) emit []
// CHECK: stage reduce({{.*}}) keep(%{{.*}} : vector<2xf32>) emit []
// CHECK: {kernel_resources = {ahead, blocks = 4 : i64, shared = {books = 2048 : i64, kept0 = 8192 : i64, sums = 16384 : i64}}}
// CHECK: phase @fold
// CHECK: {kernel_resources = {blocks = 4 : i64, shared = {words = 1060 : i64}}}
// LESS: stage reduce({{.*}} : f32) emit []
// LESS: stage reduce({{.*}} : vector<2xf32>) emit []
// LESS: {kernel_resources = {blocks = 4 : i64, shared = {books = 2048 : i64, sums = 16384 : i64}}}
// NONE: error: 'altgrad.phase' op 'go' needs 2048 bytes of shared memory, of which 'sm_80' has 1024: books 2048; store fewer lists in code books, or in blocks of columns or squares
// LATE: error: 'altgrad.phase' op stands in a step that is not fitted to a GPU yet; run altgrad-fit-resources before altgrad-lower-to-gpu
altgrad.step @s(inout %v: !altgrad.tensors<bnb8>, out %a: f32, out %b: f32) {
  %sums:2 = sweep @go load(%c from %v : !altgrad.tensors<bnb8>) reduce(add over step, sumsq over step)
      store(%v : !altgrad.tensors<bnb8>) {
    %d = decode %c format<bnb8> : i8 to f32
    %m = reduce absmax %d over block<1x256> : f32
    %q = arith.divf %d, %m : f32
    %e = encode %q format<bnb8> round<nearest_even> overflow<saturate> : f32 to i8
    emit %d, %q, %e : f32, f32, i8
  }
  commit always %sums#0 to %a : f32, %sums#1 to %b : f32
}
