// RUN: altgrad-opt %s --altgrad-lower-numerics | FileCheck %s --check-prefixes=CHECK,X86 --implicit-check-not=altgrad. --implicit-check-not=math.exp --implicit-check-not=math.log --implicit-check-not=math.fpowi
// RUN: altgrad-opt %s --altgrad-lower-numerics="target=sm_80" | FileCheck %s --check-prefixes=CHECK,SM80
// RUN: altgrad-opt %s --altgrad-lower-numerics="target=sm_90" | FileCheck %s --check-prefixes=CHECK,SM90

// bf16 is the upper half of an f32.
// CHECK-LABEL: @decode_bf16
llvm.func @decode_bf16(%c: i16) -> f32 {
  // CHECK: %[[WIDE:.*]] = arith.extui %{{.*}} : i16 to i32
  // CHECK: %[[BITS:.*]] = arith.shli %[[WIDE]], %{{.*}} : i32
  // CHECK: arith.bitcast %[[BITS]] : i32 to f32
  %x = altgrad.decode %c format<bf16> : i16 to f32
  llvm.return %x : f32
}

// f16 has an instruction everywhere; codes of 8 bits are the upper ones of an f16, scaled by an
// exact product, where no instruction takes two of them.
// CHECK-LABEL: @decode_others
llvm.func @decode_others(%c: vector<8xi16>, %d: vector<8xi8>) -> vector<8xf32> {
  // CHECK: arith.extf %{{.*}} : vector<8xf16> to vector<8xf32>
  %x = altgrad.decode %c format<f16> : vector<8xi16> to vector<8xf32>
  // X86-NOT: llvm.nvvm
  // SM80-NOT: llvm.nvvm
  // X86: arith.extf %{{.*}} : vector<8xf16> to vector<8xf32>
  // X86: arith.mulf %{{.*}}, %{{.*}} : vector<8xf32>
  // SM80-COUNT-8: arith.extf %{{.*}} : f16 to f32
  // SM90-COUNT-4: nvvm.convert.f8x2.to.f16x2
  %y = altgrad.decode %d format<ocp.e4m3fn> : vector<8xi8> to vector<8xf32>
  %z = arith.addf %x, %y : vector<8xf32>
  llvm.return %z : vector<8xf32>
}

// Steps of one size are an addition's last places, without a choice between two ranges.
// CHECK-LABEL: @fixed_point
llvm.func @fixed_point(%x: f32, %c: i8) -> i8 {
  // CHECK: arith.addf
  // CHECK-COUNT-2: arith.select
  // CHECK-NOT: arith.select
  %k = altgrad.encode %x format<altgrad.e0m7> round<nearest_even> overflow<saturate> : f32 to i8
  // CHECK: llvm.return
  llvm.return %k : i8
}

// A GPU converts to bf16 itself, x86 has no conversion that keeps subnormals.
// CHECK-LABEL: @encode_bf16
llvm.func @encode_bf16(%x: f32) -> i16 {
  // X86-NOT: truncf
  // SM80: arith.truncf %{{.*}} : f32 to bf16
  // SM90: arith.truncf %{{.*}} : f32 to bf16
  // CHECK: arith.select %{{.*}}
  %c = altgrad.encode %x format<bf16> round<nearest_even> overflow<nonfinite> : f32 to i16
  llvm.return %c : i16
}

// Packed hardware conversion from sm_89 on: pairs, and only when they saturate.
// CHECK-LABEL: @encode_e4m3
llvm.func @encode_e4m3(%x: vector<4xf32>) -> vector<4xi8> {
  // X86-NOT: e4m3x2
  // SM80-NOT: e4m3x2
  // SM90-COUNT-2: nvvm.convert.f32x2.to.f8x2
  %c = altgrad.encode %x format<ocp.e4m3fn> round<nearest_even> overflow<saturate> : vector<4xf32> to vector<4xi8>
  // CHECK: llvm.return
  llvm.return %c : vector<4xi8>
}
// CHECK-LABEL: @encode_e5m2
llvm.func @encode_e5m2(%x: vector<4xf32>) -> vector<4xi8> {
  // CHECK-NOT: e5m2x2
  %c = altgrad.encode %x format<ocp.e5m2> round<nearest_even> overflow<nonfinite> : vector<4xf32> to vector<4xi8>
  // CHECK: llvm.return
  llvm.return %c : vector<4xi8>
}

// Powers by repeated squaring; exp and log as polynomials with fma.
// CHECK-LABEL: @functions
llvm.func @functions(%x: f64, %n: i64) -> f64 {
  // CHECK: scf.while
  // CHECK: arith.shrui
  %p = math.fpowi %x, %n : f64, i64
  // CHECK: math.fma
  %e = math.exp %p : f64
  // CHECK: math.fma
  %l = math.log %e : f64
  llvm.return %l : f64
}

// The sign of a NaN differs between machines, so it counts as positive.
// CHECK-LABEL: @sign
llvm.func @sign(%x: f32, %y: f32) -> f32 {
  // CHECK: %[[NAN:.*]] = arith.cmpi sgt
  // CHECK: arith.select %[[NAN]], %{{.*}}, %{{.*}} : i32
  // CHECK: math.absf
  // CHECK: arith.ori
  // CHECK-NOT: copysign
  %s = math.copysign %x, %y : f32
  // CHECK: llvm.return
  llvm.return %s : f32
}
