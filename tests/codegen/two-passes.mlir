// RUN: altgrad-opt %s --emit=asm --target=x86-64-v3 | FileCheck %s

// A division after a square root waits for a second pass over the same block.
// The state is loaded by the first pass alone, which overwrites it; what the
// second takes from it lies on the stack.
// CHECK-LABEL: altgrad_s_update_v3:
// CHECK: vmovdqu ([[V:%r[0-9a-z]+,%r[0-9a-z]+,2]]), %ymm
// CHECK: vsqrtps {{.*}}%ymm
// CHECK-NOT: vdivps
// CHECK: vmovdqu %ymm{{[0-9]+}}, ([[V]])
// CHECK: jl
// CHECK-NOT: ([[V]])
// CHECK-COUNT-2: vdivps {{[0-9]*}}(%rsp{{.*}}%ymm
// CHECK: retq
altgrad.rule @r(param %w: f32, grad %g: f32, state %v: f32) {
  %v1 = math.fma %g, %g, %v : f32
  %root = math.sqrt %v1 : f32
  %d = divf %v, %root : f32
  %w1 = mulf %w, %d : f32
  altgrad.yield param(%w1) state(%v1)
}
altgrad.step @s(in %g: !altgrad.tensors<bf16>, inout %w: !altgrad.tensors<bf16>, inout %v: !altgrad.tensors<bf16>) {
  %x = dequantize %w : !altgrad.tensors<bf16>
  %y = dequantize %g : !altgrad.tensors<bf16>
  %z = dequantize %v : !altgrad.tensors<bf16>
  %w1, %v1 = update @r param(%x) grad(%y) state(%z) hyper()
  %c = quantize %w1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  %k = quantize %v1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  commit always %c to %w : !altgrad.tensors<bf16>, %k to %v : !altgrad.tensors<bf16>
}
