// RUN: altgrad-opt %s --emit=report | FileCheck %s --check-prefix=REPORT
// RUN: altgrad-opt %s --emit=manifest --target=x86-64-v3,sm_80 | FileCheck %s --check-prefix=MANIFEST

// A step becomes phases: a sweep, the fold of its partial sums,
// what scalars of the step decide (once), what differs between tensors (rows).
// REPORT: step train: 2 sweeps, 12 bytes per element (8 read, 4 written), 2 launches
// REPORT-NEXT: reduce0 chunks 4 read, 0 written, 2 flops
// REPORT-NEXT: fold1 rows 1 reductions, by the last block
// REPORT-NEXT: once1 once 4 scalar operations, by the last block
// REPORT-NEXT: rows1 rows 3 scalar operations, by the last block
// REPORT-NEXT: update1 chunks 4 read, 4 written, {{[0-9]+}} flops{{$}}
// REPORT-NEXT: model: 2.79 ms for 10^9 elements at 4.30 TB/s, the rate of a copy on H200
// REPORT-NEXT: model: {{.*}} A100
// REPORT-NEXT: legend: a line is a phase:
// REPORT: nothing was run or measured.

// The manifest says the same to the runtime.
// MANIFEST: "group_scalars": 1
// MANIFEST: "host": [
// MANIFEST-NEXT: "v3"
// MANIFEST: "inputs": 0
// MANIFEST: "domain": "chunks"
// MANIFEST-NEXT: "finishes": 3
// MANIFEST-NEXT: "kind": "sweep"
// MANIFEST-NEXT: "name": "reduce0"
// MANIFEST: "read": 4
// MANIFEST-NEXT: "set": 0
// MANIFEST-NEXT: "symbol": "altgrad_train_reduce0"
// MANIFEST-NEXT: "tiles": 0,
// MANIFEST-NEXT: "written": 0
// MANIFEST: "ptx": [
// MANIFEST-NEXT: "sm_80"
// MANIFEST: "key": "t"
// MANIFEST-NEXT: "name": "t"
// MANIFEST-NEXT: "role": "step"
// MANIFEST-NEXT: "scope": "tensor"
// MANIFEST: "role": "max_norm"
// MANIFEST: "default": 0.5
// MANIFEST-NEXT: "key": "lr"
// MANIFEST-NEXT: "name": "rate"
// MANIFEST-NEXT: "role": "hyper"
// MANIFEST-NEXT: "scope": "group"
// MANIFEST-NEXT: "set": 0
// MANIFEST-NEXT: "slot": 0
// MANIFEST-NEXT: "type": "f64"
// MANIFEST: "bits": 32,
// MANIFEST-NEXT: "block": 1,
// MANIFEST-NEXT: "columns": 0,
// MANIFEST-NEXT: "even": "none",
// MANIFEST-NEXT: "format": "f32",
// MANIFEST-NEXT: "key": "w"
// MANIFEST: "spills": 0
altgrad.rule @decay(param %w: f32, grad %g: f32, hyper %lr: f64 = 0.5, step %t: i64) {
  %power = math.fpowi %lr, %t : f64, i64
  %rate = truncf %power : f64 to f32
  %dw = mulf %rate, %g : f32
  %w1 = subf %w, %dw : f32
  altgrad.yield param(%w1) state()
}
altgrad.step @train(inout %w: !altgrad.tensors<f32>, inout step %t: i64 per_tensor,
                    in max_norm %limit: f32, in hyper %rate as lr: f64 per_group = 0.5) {
  %one = arith.constant 1 : i64
  %t1 = arith.addi %t, %one : i64
  %x = dequantize %w : !altgrad.tensors<f32>
  %c, %norm = clip_by_global_norm %x to %limit
  %w1 = update @decay param(%x) grad(%c) state() hyper(%rate) step(%t1)
  commit always %w1 to %w : !altgrad.tensors<f32>, %t1 to %t : i64
}
