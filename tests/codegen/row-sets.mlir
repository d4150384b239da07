// RUN: altgrad-opt %s --emit=report | FileCheck %s
// RUN: altgrad-opt %s --emit=manifest --target=sm_80 | FileCheck %s --check-prefix=MANIFEST
// RUN: altgrad-opt %s --emit=ptx --target=sm_80 | FileCheck %s --check-prefix=PTX

// Folds and scalars of several sets wait for each other, not each for its own
// launch. What a tensor's own norm decides is computed in rows of its set.
// CHECK: step train: 4 sweeps, 2 sets of tensors, 5 launches
// CHECK-NEXT: reduce0 chunks 4 read, 0 written, {{[0-9]+}} flops, set 0
// CHECK-NEXT: reduce0_1 chunks 4 read, 0 written, {{[0-9]+}} flops, set 1
// CHECK-NEXT: fold2 rows 1 reductions, set 0, by the last block
// CHECK-NEXT: fold2_1 rows 1 reductions, set 1, by the last block
// CHECK-NEXT: once2 once
// CHECK-NEXT: rows2 rows {{[0-9]*}} scalar operations, by the last block
// CHECK-NEXT: update1 chunks 4 read, 4 written, {{[0-9]+}} flops, set 0
// CHECK-NEXT: rows3 rows {{[0-9]*}} scalar operations, set 1{{$}}
// CHECK-NEXT: update1_1 chunks 4 read, 4 written, {{[0-9]+}} flops, set 1
// CHECK-NEXT: set 0: 12 bytes per element (8 read, 4 written)

// MANIFEST: "name": "rows2",
// MANIFEST-NEXT: "per_block"
// MANIFEST-NEXT: "read"
// MANIFEST-NEXT: "set": null
// MANIFEST: "name": "rows3",
// MANIFEST: "set": 1
// MANIFEST: "sets": 2
// MANIFEST: "name": "a"
// MANIFEST: "set": 0
// MANIFEST: "name": "b"
// MANIFEST: "set": 1

// The sum over the tensors of a set walks the rows between two entries of a table.
// PTX: .visible .entry altgrad_train_once2(
// PTX: ld.param.b64 [[SETS:%rd[0-9]+]], [altgrad_train_once2_param_5];
// PTX-DAG: ld.global.nc.b64 %{{.*}}, {{\[}}[[SETS]]];
// PTX-DAG: ld.global.nc.b64 %{{.*}}, {{\[}}[[SETS]]+8];
altgrad.step @train(inout %a: !altgrad.tensors<f32>, inout %b: !altgrad.tensors<f32> set 1,
                    inout %t: i64 per_tensor) {
  %one = arith.constant 1 : i64
  %t1 = arith.addi %t, %one : i64
  %age = arith.sitofp %t1 : i64 to f32
  %x = dequantize %a : !altgrad.tensors<f32>
  %xe = element %x
  %all = reduce sumsq %xe over step : f32
  %rate = arith.mulf %all, %age : f32
  %xs = arith.mulf %xe, %rate : f32
  %x1 = collect %xs : f32 to !altgrad.reals
  %y = dequantize %b : !altgrad.tensors<f32>
  %ye = element %y
  %own = reduce sumsq %ye over tensor : f32
  %root = math.sqrt %own : f32
  %ys = arith.divf %ye, %root : f32
  %y1 = collect %ys : f32 to !altgrad.reals
  commit always %x1 to %a : !altgrad.tensors<f32>, %y1 to %b : !altgrad.tensors<f32>,
      %t1 to %t : i64
}
