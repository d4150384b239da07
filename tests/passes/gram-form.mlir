// RUN: altgrad-opt %s --pass-pipeline='builtin.module(altgrad.step(altgrad-expand-matrices))' | FileCheck %s --check-prefix=EXPAND
// RUN: altgrad-opt %s --altgrad-sweeps | FileCheck %s --check-prefix=SPLIT
// RUN: altgrad-opt --rule=muon{steps=4,in=f32} --rule-path=%templates --emit=report | FileCheck %s --check-prefix=REPORT

// In f32 an elongated matrix takes the Gram form: two products of its own shape for up to three steps.
// EXPAND-LABEL: altgrad.step @four(
// EXPAND: gram %[[X:.*]] : !altgrad.tensors<f32>
// EXPAND-COUNT-3: gram
// EXPAND: %[[Y:.*]] = product %{{.*}}, %{{.*}} plus %{{.*}} by {{3.4445[0-9e+]*}} : !altgrad.tensors<f32>
// EXPAND: %[[R:.*]] = gram %[[X]] : !altgrad.tensors<f32>
// EXPAND-NEXT: %[[W:.*]] = product %[[R]], %[[R]] by {{2.0315[0-9e+]*}} plus %[[R]] by {{-4.775[0-9e+]*}} shift {{3.4445[0-9e+]*}} : !altgrad.squares<f32>
// EXPAND-NEXT: %[[RW:.*]] = product %[[R]], %[[W]] : !altgrad.squares<f32>
// EXPAND-NEXT: %[[R1:.*]] = product %[[W]], %[[RW]] : !altgrad.squares<f32>
// EXPAND-NEXT: %[[W1:.*]] = product %[[R1]], %[[R1]]
// EXPAND-NEXT: %[[Q1:.*]] = product %[[W]], %[[W1]] : !altgrad.squares<f32>
// EXPAND: %[[Q2:.*]] = product %[[Q1]],
// EXPAND-NEXT: %[[X3:.*]] = product %[[Q2]], %[[X]] : !altgrad.tensors<f32>
// EXPAND-NEXT: %[[R3:.*]] = gram %[[X3]]
// EXPAND-NEXT: %[[W3:.*]] = product %[[R3]], %[[R3]]
// EXPAND-NEXT: %[[X4:.*]] = product %[[W3]], %[[X3]] : !altgrad.tensors<f32>
// EXPAND-NEXT: %[[O:.*]] = select_by_aspect %[[X4]], %[[Y]] from {{1.5[0e+]*}} : !altgrad.tensors<f32>
// EXPAND-NEXT: load %[[O]]

// The gram that both forms begin with is for all; their results lie in one place.
// SPLIT-LABEL: altgrad.step @four(
// SPLIT: multiply gram %[[X:.*]], %[[X]] into %[[R:.*]] : !altgrad.tensors<f32>
// SPLIT-NEXT: multiply square %[[R]], %[[R]] {{.*}} below 1.5
// SPLIT-COUNT-3: multiply side {{.*}} below
// SPLIT: multiply side {{.*}} into %[[Y:[^ ]*]] below {{1.5[0e+]*}} : !altgrad.tensors<f32>
// SPLIT-NEXT: multiply square %[[R]], %[[R]] by {{.*}} shift {{.*}} into %{{.*}} from {{1.5[0e+]*}} :
// SPLIT: multiply side {{.*}} into %[[Y]] from {{1.5[0e+]*}} : !altgrad.tensors<f32>
// SPLIT-NEXT: sweep @{{.*}} load(%{{.*}} from %[[Y]]

// REPORT: 12 products of matrices n x m, n <= m: 16 n + 8 n^2/m flops; from 1.5 n on 14 products of matrices n x m, n <= m: 8 n + 20 n^2/m flops
altgrad.step @four(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<jordan> steps<4> in<f32> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}

// In f16 from twice the shorter side on, and for up to two steps.
// EXPAND-LABEL: altgrad.step @half(
// EXPAND: gram %[[X:.*]] : !altgrad.tensors<f16>
// EXPAND-COUNT-2: gram
// EXPAND: %[[R:.*]] = gram %[[X]] : !altgrad.tensors<f16>
// EXPAND-NEXT: %[[W:.*]] = product %[[R]], %[[R]] by {{.*}} shift {{3.4445[0-9e+]*}} : !altgrad.squares<f16>
// EXPAND-NEXT: %[[RW:.*]] = product %[[R]], %[[W]]
// EXPAND-NEXT: %[[R1:.*]] = product %[[W]], %[[RW]]
// EXPAND-NEXT: %[[W1:.*]] = product %[[R1]], %[[R1]]
// EXPAND-NEXT: %[[Q1:.*]] = product %[[W]], %[[W1]] : !altgrad.squares<f16>
// EXPAND-NEXT: %[[X2:.*]] = product %[[Q1]], %[[X]] : !altgrad.tensors<f16>
// EXPAND-NEXT: %[[R2:.*]] = gram %[[X2]]
// EXPAND-NEXT: %[[W2:.*]] = product %[[R2]], %[[R2]]
// EXPAND-NEXT: %[[X3:.*]] = product %[[W2]], %[[X2]]
// EXPAND-NEXT: select_by_aspect %[[X3]], %{{.*}} from {{2.0[0e+]*}} : !altgrad.tensors<f16>
altgrad.step @half(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<jordan> steps<3> in<f16> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}

// Without a fifth power, and in bf16, there is one form. In f16 it is so of polynomials that enlarge an error of its last
// bit to that of a value, as those of cans do, by a name or by their numbers; with a margin of 1.005 they do not.
// EXPAND-LABEL: altgrad.step @cubic(
// EXPAND-NOT: select_by_aspect
// EXPAND-LABEL: altgrad.step @narrow(
// EXPAND-NOT: select_by_aspect
// EXPAND-LABEL: altgrad.step @fragile(
// EXPAND-NOT: select_by_aspect
// EXPAND-LABEL: altgrad.step @written(
// EXPAND-NOT: select_by_aspect
// EXPAND-LABEL: altgrad.step @margin(
// EXPAND: select_by_aspect %{{.*}} from {{2.0[0e+]*}} : !altgrad.tensors<f16>
// EXPAND-LABEL: altgrad.step @wide(
// EXPAND: select_by_aspect %{{.*}} from {{1.5[0e+]*}} : !altgrad.tensors<f32>
altgrad.step @cubic(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<cubic5> steps<5> in<f32> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}
altgrad.step @narrow(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}
altgrad.step @fragile(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<cans> steps<5> in<f16> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}
altgrad.step @written(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<[8.4703, -25.1081, 18.6293], [4.1828, -3.1087, 0.5806], [3.9619, -2.9541, 0.563], [3.2866, -2.4647, 0.5074], [2.2737, -1.6447, 0.4162]> steps<5> in<f16> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}
altgrad.step @margin(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<[8.42816, -24.7352, 18.1705], [4.16199, -3.06253, 0.5663], [3.94219, -2.91023, 0.549134], [3.27025, -2.4281, 0.494903], [2.26239, -1.62027, 0.405949]> steps<5> in<f16> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}
altgrad.step @wide(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<cans> steps<5> in<f32> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}
