// RUN: altgrad-opt %s --altgrad-lower-numerics | FileCheck %s --implicit-check-not=math.{{[^fsa]}} --implicit-check-not=altgrad. --implicit-check-not=scf --implicit-check-not=cf. --implicit-check-not=call --implicit-check-not=extract
// RUN: altgrad-opt %s --altgrad-lower-numerics --altgrad-lower-to-llvm | FileCheck %s --check-prefix=LLVM --implicit-check-not="llvm.call " --implicit-check-not=llvm.cond_br

// A function of an element is arithmetic, bits and selects, on a vector as on a number: no branch, no table, no call,
// and of LLVM's functions those alone that every target rounds: fma, sqrt and fabs.
// CHECK-LABEL: @one
// LLVM-LABEL: @one
// LLVM-NOT: llvm.intr.{{exp|log|pow|tanh|sin|cos|atan}}
llvm.func @one(%x: vector<8xf32>) -> vector<8xf32> {
  // CHECK: math.fma {{.*}} : vector<8xf32>
  // CHECK: arith.shli {{.*}} : vector<8xi32>
  %0 = math.exp %x : vector<8xf32>
  %1 = math.exp2 %0 : vector<8xf32>
  %2 = math.expm1 %1 : vector<8xf32>
  %3 = math.log %2 : vector<8xf32>
  %4 = math.log2 %3 : vector<8xf32>
  %5 = math.log1p %4 : vector<8xf32>
  // CHECK: math.sqrt
  %6 = math.rsqrt %5 : vector<8xf32>
  %7 = math.cbrt %6 : vector<8xf32>
  %8 = math.tanh %7 : vector<8xf32>
  %9 = altgrad.sigmoid %8 : vector<8xf32>
  %10 = altgrad.softplus %9 : vector<8xf32>
  %11 = math.erf %10 : vector<8xf32>
  // Of 2 / pi the words are chosen by the exponent's bits.
  // CHECK-COUNT-3: arith.muli {{.*}} : vector<8xi64>
  %12 = math.sin %11 : vector<8xf32>
  %13 = math.cos %12 : vector<8xf32>
  llvm.return %13 : vector<8xf32>
}

// CHECK-LABEL: @two
// LLVM-LABEL: @two
llvm.func @two(%x: f32, %y: f32) -> f32 {
  // CHECK: math.fma {{.*}} : f32
  %0 = math.powf %x, %y : f32
  %1 = math.atan2 %0, %y : f32
  // CHECK: llvm.return
  llvm.return %1 : f32
}
