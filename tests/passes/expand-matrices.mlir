// RUN: altgrad-opt %s --pass-pipeline='builtin.module(altgrad.step(altgrad-expand-matrices))' --split-input-file | FileCheck %s

// The norm is that of the rounded elements, and rounded like everything that follows from it. A
// step of the iteration is a gram and two products.
// CHECK-LABEL: altgrad.step @torch(
// CHECK: %[[U:.*]] = encode %{{.*}} format<bf16> round<nearest_even> overflow<nonfinite> : f32 to i16
// CHECK: %[[R:.*]] = collect %[[U]] : i16 to !altgrad.tensors<bf16>
// CHECK: %[[C:.*]] = load %[[R]] : !altgrad.tensors<bf16>
// CHECK: %[[D:.*]] = decode %[[C]] format<bf16> : i16 to f32
// CHECK: %[[S:.*]] = reduce sumsq %[[D]] over tensor : f32
// CHECK: %[[N:.*]] = math.sqrt %[[S]] : f32
// CHECK: %[[N1:.*]] = round %[[N]] format<bf16>
// CHECK: %[[E:.*]] = arith.truncf %{{.*}} : f64 to f32
// CHECK: %[[E1:.*]] = round %[[E]] format<bf16>
// CHECK: %[[L:.*]] = arith.maximumf %[[N1]], %[[E1]] : f32
// CHECK: %[[Q:.*]] = arith.divf %[[D]], %[[L]] : f32
// CHECK: %[[Q1:.*]] = encode %[[Q]] format<bf16>
// CHECK: %[[X:.*]] = collect %[[Q1]] : i16 to !altgrad.tensors<bf16>
// CHECK: %[[A:.*]] = gram %[[X]] : !altgrad.tensors<bf16>
// CHECK: %[[B:.*]] = product %[[A]], %[[A]] by {{2.0315[0-9e+]*}} plus %[[A]] by {{-4.775[0-9e+]*}} : !altgrad.squares<bf16>
// CHECK: %[[Y:.*]] = product %[[B]], %[[X]] plus %[[X]] by {{3.4445[0-9e+]*}} : !altgrad.tensors<bf16>
// CHECK: gram %[[Y]]
// CHECK: product
// CHECK: %[[Z:.*]] = product
// CHECK-NOT: gram
// CHECK: %[[O:.*]] = load %[[Z]] : !altgrad.tensors<bf16>
// CHECK: decode %[[O]] format<bf16> : i16 to f32
altgrad.step @torch(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<jordan> steps<2> in<bf16> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}

// -----

// A set's margin multiplies the norm; f32 needs no rounding.
// CHECK-LABEL: altgrad.step @dion(
// CHECK: %[[N:.*]] = math.sqrt
// CHECK: %[[M:.*]] = arith.constant 1.020000e+00 : f32
// CHECK: %[[L:.*]] = arith.mulf %[[N]], %[[M]] : f32
// CHECK: arith.addf %[[L]], %{{.*}} : f32
// CHECK-NOT: round %
// CHECK: by {{15.8787[0-9]*}} plus %{{.*}} by {{-22.48329[0-9]*}}
altgrad.step @dion(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<polar_dion> steps<5> in<f32> length<added> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}

// -----

// Without a fifth power there is no product of two squares. In f16 the quotient alone is rounded.
// CHECK-LABEL: altgrad.step @cubic(
// CHECK: %[[U:.*]] = element
// CHECK-NEXT: %[[S:.*]] = reduce sumsq %[[U]] over tensor
// CHECK-NEXT: %[[N:.*]] = math.sqrt %[[S]]
// CHECK-NEXT: %[[E:.*]] = arith.truncf
// CHECK-NEXT: %[[L:.*]] = arith.maximumf %[[N]], %[[E]]
// CHECK-NEXT: %[[Q:.*]] = arith.divf %[[U]], %[[L]]
// CHECK-NEXT: encode %[[Q]] format<f16>
// CHECK: %[[A:.*]] = gram %[[X:.*]] :
// CHECK-NEXT: %[[Y:.*]] = product %[[A]], %[[X]] by {{-0.5|-5.0+e-01}} plus %[[X]] by {{1.5[0e+]*}} : !altgrad.tensors<f16>
// CHECK-NEXT: load %[[Y]]
altgrad.step @cubic(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<[1.5, -0.5, 0.0]> steps<1> in<f16> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}

// -----

// Of units the norm is each one's own.
// CHECK-LABEL: altgrad.step @experts(
// CHECK: reduce sumsq %{{.*}} over unit : f32
// CHECK: gram
altgrad.step @experts(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u over unit coefficients<jordan> steps<1> in<bf16> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}
