// RUN: altgrad-opt %s --altgrad-lower-numerics="target=x86-64-v4" --canonicalize --cse | FileCheck %s
// RUN: altgrad-opt %s --altgrad-lower-numerics="target=sm_80" --canonicalize --cse | FileCheck %s --check-prefix=GPU

// On a host a move is added and cut in 16 bits, and chosen and compared in bytes; on a GPU a register has 32.
// CHECK-LABEL: @move
// CHECK: arith.addi {{.*}} : vector<16xi16>
// CHECK: arith.maxsi {{.*}} : vector<16xi16>
// CHECK: arith.minsi {{.*}} : vector<16xi16>
// CHECK: arith.trunci {{.*}} : vector<16xi16> to vector<16xi8>
// CHECK: arith.select {{.*}} : vector<16xi1>, vector<16xi8>
// CHECK: arith.cmpi ne, {{.*}} : vector<16xi8>
// CHECK-NOT: altgrad
// GPU-LABEL: @move
// GPU: arith.extui {{.*}} : i8 to i32
// GPU: arith.maxsi {{.*}} : vector<16xi32>
// GPU-NOT: altgrad
llvm.func @move(%code: vector<16xi8>, %by: vector<16xf32>, %draw: vector<16xi16>) -> vector<16xi8> {
  %next, %moved, %up, %beyond = altgrad.advance_code %code by %by format<ocp.e4m3fn> round<stochastic> draw(%draw : vector<16xi16>) : vector<16xi8>
  %all = arith.select %moved, %next, %code : vector<16xi1>, vector<16xi8>
  llvm.return %all : vector<16xi8>
}

// Every code of this format is a number: there is none to keep.
// CHECK-LABEL: @numbers
// CHECK-COUNT-5: arith.select
// CHECK-NOT: arith.select
llvm.func @numbers(%code: i8, %by: f32) -> i8 {
  %next, %moved, %up, %beyond = altgrad.advance_code %code by %by format<altgrad.e3m4> round<toward_zero> : i8
  llvm.return %next : i8
}
