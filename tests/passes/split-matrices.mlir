// RUN: altgrad-opt %s --altgrad-sweeps | FileCheck %s
// RUN: altgrad-opt %s --emit=report | FileCheck %s --check-prefix=REPORT
// RUN: altgrad-opt %s --emit=ptx --target=sm_90 | FileCheck %s --check-prefix=PTX --implicit-check-not=.entry

// A matrix ends a sweep: one sweep stores it, products follow, and the next sweep loads
// the last of them. Three lists are enough, because a product takes the place
// of a matrix that nobody reads any more.
// CHECK-LABEL: altgrad.step @polar(
// CHECK-COUNT-3: spill : !altgrad.tensors<bf16>
// CHECK: %[[SUM:.*]] = sweep @reduce0 load(%{{.*}} from %w
// CHECK-SAME: reduce(sumsq over tensor) store()
// CHECK: sweep @update1 load({{.*}}) reduce() store(%[[X:.*]] : !altgrad.tensors<bf16>)
// CHECK: multiply gram %[[X]], %[[X]] into %[[A:.*]] : !altgrad.tensors<bf16>
// CHECK-NEXT: multiply square %[[A]], %[[A]] by {{2.0315[0-9e+]*}} plus %[[A]] by {{-4.775[0-9e+]*}} into %[[B:.*]] :
// CHECK-NEXT: multiply side %[[B]], %[[X]] plus %[[X]] by {{3.4445[0-9e+]*}} into %[[Y:.*]] :
// CHECK-NEXT: multiply gram %[[Y]], %[[Y]] into
// CHECK-NEXT: multiply square
// CHECK-NEXT: multiply side {{.*}} into %[[Z:.*]] :
// CHECK-NEXT: sweep @update2 load(%{{.*}} from %[[Z]] : !altgrad.tensors<bf16>) reduce() store(%w

// REPORT: step polar: 3 sweeps, {{.*}}
// REPORT: update1 {{.*}} 2 written
// REPORT: matrix{{[0-9]*}} {{ *}}rows   6 products of matrices n x m, n <= m: 8 n + 4 n^2/m flops
// REPORT-NEXT: update2 {{ *}}chunks 2 read, 4 written

// A GPU has kernels for everything but the products.
// PTX: .entry altgrad_values
// PTX: .entry altgrad_polar_reduce0
// PTX: .entry altgrad_polar_fold1
// PTX: .entry altgrad_polar_once1
// PTX: .entry altgrad_polar_rows1
// PTX: .entry altgrad_polar_update1
// PTX: .entry altgrad_polar_update2
altgrad.step @polar(inout %w: !altgrad.tensors<f32>, in %eps: f64) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %u = element %v
  %o = orthogonalize %u coefficients<jordan> steps<2> in<bf16> length<clamped> eps(%eps)
  %l = collect %o : f32 to !altgrad.reals
  commit always %l to %w : !altgrad.tensors<f32>
}
