// RUN: altgrad-opt %s --altgrad-lower-numerics="target=x86-64-v4" --canonicalize --cse | FileCheck %s
// RUN: altgrad-opt %s --altgrad-lower-numerics="target=sm_80" --canonicalize --cse | FileCheck %s --check-prefix=GPU

// Rungs are added and cut as integers of 16 bits, chosen and compared as bytes.
// CHECK-LABEL: @move
// CHECK-NOT: arith.addf
// CHECK: arith.addi {{.*}} : vector<16xi16>
// CHECK: arith.maxsi {{.*}} : vector<16xi16>
// CHECK: arith.minsi {{.*}} : vector<16xi16>
// CHECK: arith.trunci {{.*}} : vector<16xi16> to vector<16xi8>
// CHECK: arith.select {{.*}} : vector<16xi1>, vector<16xi8>
// CHECK: arith.cmpi ne, {{.*}} : vector<16xi8>
// CHECK: math.absi {{.*}} : vector<16xi8>
// CHECK-NOT: arith.addf
// GPU-LABEL: @move
// GPU: arith.addf
llvm.func @move(%code: vector<16xi8>, %by: vector<16xf32>, %draw: vector<16xi16>) -> vector<16xi8> {
  %zero = arith.constant dense<0.0> : vector<16xf32>
  %top = arith.constant dense<126.0> : vector<16xf32>
  %bottom = arith.constant dense<-126.0> : vector<16xf32>
  %from = altgrad.decode %code format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none> : vector<16xi8> to vector<16xf32>
  %moves = altgrad.encode %by format<exponent = 0, mantissa = 9, bias = -9, inf = false, nan = none> round<stochastic> draw(%draw : vector<16xi16>) overflow<saturate> : vector<16xf32> to vector<16xi16>
  %whole = altgrad.decode %moves format<exponent = 0, mantissa = 9, bias = -9, inf = false, nan = none> : vector<16xi16> to vector<16xf32>
  %to = arith.addf %from, %whole : vector<16xf32>
  %raised = arith.maximumf %to, %bottom : vector<16xf32>
  %bounded = arith.minimumf %raised, %top : vector<16xf32>
  %next = arith.addf %bounded, %zero : vector<16xf32>
  %size = math.absf %from : vector<16xf32>
  %special = arith.cmpf ogt, %size, %top : vector<16xf32>
  %kept = arith.select %special, %from, %next : vector<16xi1>, vector<16xf32>
  %moved = arith.cmpf one, %kept, %from : vector<16xf32>
  %new = altgrad.encode %kept format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none> round<nearest_even> overflow<saturate> : vector<16xf32> to vector<16xi8>
  %none = arith.constant dense<0> : vector<16xi8>
  %all = arith.select %moved, %new, %none : vector<16xi1>, vector<16xi8>
  llvm.return %all : vector<16xi8>
}

// What may be -0 has a code of its own, and what is no whole number has digits behind the point.
// CHECK-LABEL: @not_whole
// CHECK-COUNT-2: arith.addf
llvm.func @not_whole(%code: vector<16xi8>) -> vector<16xi8> {
  %half = arith.constant dense<0.5> : vector<16xf32>
  %from = altgrad.decode %code format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none> : vector<16xi8> to vector<16xf32>
  %twice = arith.addf %from, %from : vector<16xf32>
  %more = arith.addf %from, %half : vector<16xf32>
  %a = altgrad.encode %twice format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none> round<nearest_even> overflow<saturate> : vector<16xf32> to vector<16xi8>
  %b = altgrad.encode %more format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none> round<nearest_even> overflow<saturate> : vector<16xf32> to vector<16xi8>
  %c = arith.xori %a, %b : vector<16xi8>
  llvm.return %c : vector<16xi8>
}
