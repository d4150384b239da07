// RUN: altgrad-opt %s --altgrad-vectorize="width=8" | FileCheck %s

// The narrow body stays for what does not fill a vector. Scalars are broadcast,
// constants become splats, and what has no element in it stays a scalar.
// CHECK-LABEL: @body
altgrad.step @body(inout %w: !altgrad.tensors<bf16>, in %k: f32, out %s: f32) {
  // CHECK: sweep @go load(%[[N:.*]] from %w : !altgrad.tensors<bf16>) reduce(max over step) store(%w : !altgrad.tensors<bf16>) {
  %top = sweep @go load(%c from %w : !altgrad.tensors<bf16>) reduce(max over step) store(%w : !altgrad.tensors<bf16>) {
    // CHECK-NEXT: decode %[[N]] format<bf16> : i16 to f32
    %x = decode %c format<bf16> : i16 to f32
    %two = arith.constant 2.0 : f32
    %y = arith.mulf %x, %two : f32
    %q = arith.negf %k : f32
    %z = arith.addf %y, %q : f32
    %up = arith.cmpf ogt, %z, %x : f32
    %r = arith.select %up, %z, %x : f32
    %d = encode %r format<bf16> round<nearest_even> overflow<nonfinite> : f32 to i16
    emit %k, %d : f32, i16
  }
  // CHECK: } wide 8 (%[[C:.*]]) {
  // CHECK: decode %[[C]] format<bf16> : vector<8xi16> to vector<8xf32>
  // CHECK-DAG: arith.constant dense<2.000000e+00> : vector<8xf32>
  // CHECK-DAG: %[[Q:.*]] = arith.negf %k : f32
  // CHECK: vector.broadcast %[[Q]] : f32 to vector<8xf32>
  // CHECK: arith.cmpf ogt, {{.*}} : vector<8xf32>
  // CHECK: arith.select {{.*}} : vector<8xi1>, vector<8xf32>
  // CHECK: %[[D:.*]] = encode
  // CHECK: %[[K:.*]] = vector.broadcast %k : f32 to vector<8xf32>
  // CHECK: emit %[[K]], %[[D]] : vector<8xf32>, vector<8xi16>
  commit always %top to %s : f32
}
