// Kernels for symmetric products are written where they are asked for, for each 16-bit format that a step multiplies in.
// RUN: altgrad-opt %s --rule=product --emit=ptx --target=sm_80 --own-products | FileCheck %s
// RUN: altgrad-opt %s --rule=product --emit=ptx --target=sm_80 | FileCheck %s --check-prefix=NONE
// RUN: sed s/bf16/f32/g %s > %t.mlir
// RUN: altgrad-opt %t.mlir --rule=product --emit=ptx --target=sm_80 --own-products | FileCheck %s --check-prefix=NONE

altgrad.rule @product(param %w: f32, grad %g: f32) {
  %x = altgrad.matrix %g : !altgrad.tensors<bf16>
  %a = altgrad.gram %x : !altgrad.tensors<bf16>
  %y = altgrad.product %a, %x : !altgrad.tensors<bf16>
  %e = altgrad.entry %y : !altgrad.tensors<bf16>
  altgrad.yield param(%e) state()
}

// Three stages are asked for, and in the loop a fourth while one is multiplied: 2 x 4 x 6 products of a warp. Fragments
// are loaded before the products in front of them.
// CHECK-LABEL: .entry altgrad_symmetric_bf16(
// CHECK: .maxntid 256
// CHECK-COUNT-5: cp.async.cg.shared.global [{{.*}}], [{{.*}}], 16, %r
// CHECK-NEXT: cp.async.commit_group
// CHECK: cp.async.wait_group 2;
// CHECK-NEXT: bar.sync 0;
// CHECK-COUNT-14: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-COUNT-5: cp.async.cg.shared.global
// CHECK: cp.async.commit_group
// CHECK-COUNT-24: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: cp.async.wait_group 2;
// CHECK-NEXT: bar.sync 0;
// CHECK-COUNT-7: ldmatrix.sync.aligned.m8n8.x4.shared.b16
// CHECK-COUNT-24: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK-COUNT-48: cvt.rn.bf16x2.f32
// CHECK: cp.async.wait_group 0;
// CHECK: st.global.v4.b32
// CHECK-LABEL: .entry altgrad_symmetric_columns_bf16(
// CHECK-COUNT-7: ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16

// NONE: .entry
// NONE-NOT: altgrad_symmetric
