// RUN: altgrad-opt %s --altgrad-sweeps --remarks-filter=altgrad -o /dev/null 2>&1 | FileCheck %s
// RUN: altgrad-opt %s --altgrad-sweeps -o /dev/null 2>&1 | count 0

// Asked for, each choice is printed with its cost in bytes per element; unasked,
// the compiler says nothing.
// CHECK: remarks.mlir:[[#@LINE+4]]:1: remark: [Passed] split | Category:altgrad | Reason=recompute, recompute-bytes=12, spill-bytes=12
// CHECK: remarks.mlir:[[#@LINE+3]]:1: remark: [Passed] fuse | Category:altgrad | bytes-after=12, bytes-before=16, sweeps-after=2, sweeps-before=3
// CHECK-NOT: remark

altgrad.step @clip(in %grads: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<f32>,
                   in %k: f32, in %limit: f32) {
  %g, %finite = unscale %grads by %k : !altgrad.tensors<f32>
  %c, %n = clip_by_global_norm %g to %limit
  commit if %finite %c to %w : !altgrad.tensors<f32>
}
