// RUN: altgrad-opt %s --verify-roundtrip | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s

// Roles, names and defaults survive printing; arith needs no prefix.
// CHECK: altgrad.rule @sgd(param %w: f32, grad %g: f32, hyper %lr: f64 = 1.000000e-03, option %up: i1 = false)
altgrad.rule @sgd(param %w: f32, grad %g: f32, hyper %lr: f64 = 1.0e-3,
                  option %up: i1 = false) {
  // CHECK: truncf %lr : f64 to f32
  %rate = truncf %lr : f64 to f32
  // CHECK: mulf
  %dw = mulf %rate, %g : f32
  %w1 = subf %w, %dw : f32
  // CHECK: altgrad.yield param(%{{[0-9a-z]+}}){{$}}
  altgrad.yield param(%w1) state()
}

// CHECK-LABEL: altgrad.rule @noisy
altgrad.rule @noisy(param %w: f32, grad %g: f32) {
  // CHECK: altgrad.random normal key(3) : f32
  %z = altgrad.random normal key(3) : f32
  %w1 = addf %w, %z : f32
  altgrad.yield param(%w1) state()
}
