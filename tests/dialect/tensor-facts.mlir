// RUN: altgrad-opt %s | altgrad-opt | FileCheck %s
// What a body may ask of its element and tensor, in every form of it.

// CHECK-LABEL: altgrad.rule @r
altgrad.rule @r(param %w: f32, grad %g: f32) {
  // CHECK: altgrad.index : i64
  // CHECK: altgrad.tag : i64
  // CHECK: altgrad.dim rows : i64
  %i = altgrad.index : i64
  %k = altgrad.tag : i64
  %n = altgrad.dim rows : i64
  altgrad.yield param(%w) state()
}

// CHECK-LABEL: altgrad.step @s
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  // CHECK: dim columns : i64
  // CHECK: dim batch : i64
  %n = dim columns : i64
  %b = dim batch : i64
  sweep @go load() reduce() store(%w : !altgrad.tensors<f32>) {
    // CHECK: index : i64
    %i = index : i64
    %x = arith.sitofp %i : i64 to f32
    emit %x : f32
  } wide 4 () {
    // CHECK: index : vector<4xi64>
    %i = index : vector<4xi64>
    %x = arith.sitofp %i : vector<4xi64> to vector<4xf32>
    emit %x : vector<4xf32>
  }
  commit
}
