// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-vectorize=width=2 --altgrad-fit-resources --altgrad-lower-to-gpu --canonicalize --cse | FileCheck %s

// Four rows of 256 elements: all eight loads of a thread come before the first sum.
// What fills no group of rows is done row by row.
// CHECK-LABEL: llvm.func @altgrad_s_norm(
// CHECK: scf.for {{.*}} step %c1024_i32
// CHECK-COUNT-8: llvm.load {{.*}} -> vector<4xf32>
// CHECK-NOT: llvm.load
// CHECK-COUNT-16: math.fma
// CHECK: scf.for {{.*}} step %c256_i32
// CHECK: scf.if
// CHECK: llvm.load {{.*}} -> vector<4xf32>
// CHECK: math.fma

// To decode bytes takes the registers that there are. A thread has no more than
// eight of a row, so they come eight at a time.
// CHECK-LABEL: llvm.func @altgrad_s_bytes(
// CHECK-NOT: step %c1024_i32
// CHECK: scf.for {{.*}} step %c256_i32
// CHECK: llvm.load {{.*}} {alignment = 8 : i64{{.*}} -> vector<2xi32>

// A division wants the registers, and what is stored waits for nobody.
// CHECK-LABEL: llvm.func @altgrad_s_divide(
// CHECK-NOT: step %c1024_i32
// CHECK-LABEL: llvm.func @altgrad_s_store(
// CHECK-NOT: step %c1024_i32

altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %q: !altgrad.tensors<ocp.e4m3fn>, out %n: f32, out %b: f32,
                out %d: f32, out %e: f32) {
  %sum = sweep @norm load(%a from %w : !altgrad.tensors<f32>) reduce(sumsq over step) store() {
    emit %a : f32
  }
  %most = sweep @bytes load(%a from %q : !altgrad.tensors<ocp.e4m3fn>) reduce(max over step) store() {
    %x = decode %a format<ocp.e4m3fn> : i8 to f32
    emit %x : f32
  }
  %inverse = sweep @divide load(%a from %w : !altgrad.tensors<f32>) reduce(add over step) store() {
    %one = arith.constant 1.0 : f32
    %x = arith.divf %one, %a : f32
    emit %x : f32
  }
  %all = sweep @store load(%a from %w : !altgrad.tensors<f32>) reduce(add over step) store(%w : !altgrad.tensors<f32>) {
    emit %a, %a : f32, f32
  }
  commit always %sum to %n : f32, %most to %b : f32, %inverse to %d : f32, %all to %e : f32
}
