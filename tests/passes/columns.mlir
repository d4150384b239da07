// RUN: altgrad-opt %s --altgrad-inline-rules --altgrad-expand-gradients --altgrad-expand-formats --altgrad-split-sweeps --altgrad-fuse-sweeps | FileCheck %s --implicit-check-not="sweep @"
// RUN: altgrad-opt %s --emit=report | FileCheck %s --check-prefix=REPORT

// What is reduced over columns is combined row by row, by the sweep that has the sums of the rows, too. What elements
// compute of a column is computed once, in the first row alone, and kept in a list; its state is stored from there.
// CHECK: %[[KEPT:.*]] = spill : !altgrad.tensors<f32 per column>
// CHECK: %[[LIST:.*]] = spill : !altgrad.tensors<f32 per column>
// CHECK: %[[RUNS:.*]] = spill by run : !altgrad.tensors<f32 per column>
// CHECK: sweep @runs0 walk runs combine sumsq load({{.*}} from %g : {{.*}}) reduce(sumsq over unit) store(%[[RUNS]] : !altgrad.tensors<f32 per column>)
// CHECK: sweep @columns0 walk heads combine add load({{.*}} from %[[RUNS]] : {{.*}}) reduce() store(%[[LIST]] : !altgrad.tensors<f32 per column>)
// CHECK: across units
// CHECK: sweep @columns_kept1 walk columns load({{.*}} from %[[LIST]] : {{.*}}, {{.*}} from %c : {{.*}}) reduce() store(%[[KEPT]] : !altgrad.tensors<f32 per column>)
// CHECK: sweep @update1 load({{.*}} from %[[KEPT]] : !altgrad.tensors<f32 per column>{{.*}} store(%w : !altgrad.tensors<f32>)
// CHECK: sweep @columns_update1 walk columns load({{.*}} from %[[KEPT]] : {{.*}}) reduce() store(%c : !altgrad.tensors<f32 per column>)
// REPORT: step factored: 5 sweeps, 16 bytes per element (12 read, 4 written)

altgrad.rule @r(param %w: f32, grad %g: f32, state %r: f32 per row, state %c: f32 per column, hyper %beta: f64) {
  %rest = truncf %beta : f64 to f32
  %row = altgrad.reduce sumsq %g over row : f32
  %r1 = altgrad.lerp %r to %row by %rest : f32
  %column = altgrad.reduce sumsq %g over column : f32
  %c1 = altgrad.lerp %c to %column by %rest : f32
  %all = altgrad.reduce add %r1 over tensor : f32
  %share = divf %r1, %all : f32
  %v = mulf %share, %c1 : f32
  %root = math.sqrt %v : f32
  %u = divf %g, %root : f32
  %w1 = subf %w, %u : f32
  altgrad.yield param(%w1) state(%r1, %c1)
}

altgrad.step @factored(in grad %g: !altgrad.tensors<f32>, inout param %w: !altgrad.tensors<f32>,
    inout state %r: f32 per_unit, inout state %c: !altgrad.tensors<f32 per column>, in hyper %beta: f64 per_group) {
  %gv = dequantize %g : !altgrad.tensors<f32>
  %wv = dequantize %w : !altgrad.tensors<f32>
  %cv = dequantize %c : !altgrad.tensors<f32 per column>
  %w1, %c1, %r1 = update @r param(%wv) grad(%gv) state(%cv) scalar(%r) hyper(%beta)
  commit always %w1 to %w : !altgrad.tensors<f32>, %c1 to %c : !altgrad.tensors<f32 per column>, %r1 to %r : f32
}
