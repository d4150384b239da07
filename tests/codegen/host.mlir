// RUN: altgrad-opt %s --emit=asm --target=x86-64-v4 | FileCheck %s --check-prefixes=CHECK,V4 \
// RUN:   --implicit-check-not='{{(call|jmp)q?[[:space:]]+[^.[:space:]]}}'
// RUN: altgrad-opt %s --emit=asm --target=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3 \
// RUN:   --implicit-check-not='{{(call|jmp)q?[[:space:]]+[^.[:space:]]}}' --implicit-check-not=zmm

// Whole vectors of the level, no function of a library, an fma where one is
// written and nowhere else.
altgrad.rule @r(param %w: f32, grad %g: f32, state %v: f32, hyper %b: f64, step %t: i64) {
  %p = math.fpowi %b, %t : f64, i64
  %e = math.exp %p : f64
  %l = math.log %e : f64
  %rate = truncf %l : f64 to f32
  %gg = mulf %g, %g : f32
  %v1 = addf %v, %gg : f32
  %root = math.sqrt %v1 : f32
  %d = divf %g, %root : f32
  %w1 = math.fma %rate, %d, %w : f32
  altgrad.yield param(%w1) state(%v1)
}
// CHECK-LABEL: altgrad_s_update_v{{[34]}}:
// V4: vmulps {{.*}}%zmm
// V4: vaddps {{.*}}%zmm
// V4: vsqrtps {{.*}}%zmm
// V4: vdivps {{.*}}%zmm
// V4: vf{{n?}}madd{{.*}}ps {{.*}}%zmm
// V3: vmulps {{.*}}%ymm
// V3: vaddps {{.*}}%ymm
// V3: vsqrtps {{.*}}%ymm
// V3: vdivps {{.*}}%ymm
// V3: vfmadd{{.*}}ps {{.*}}%ymm
// One more for the elements that fill no vector, and no third.
// CHECK-NOT: vf{{n?}}m{{(add|sub)}}
// CHECK: vf{{n?}}madd{{.*}}ss
// CHECK-NOT: vf{{n?}}m{{(add|sub)}}
// CHECK: retq
altgrad.step @s(in %g: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<f32>,
                inout %v: !altgrad.tensors<bf16>, in %b: f64, in %t: i64) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %g : !altgrad.tensors<f32>
  %z = dequantize %v : !altgrad.tensors<bf16>
  %w1, %v1 = update @r param(%x) grad(%y) state(%z) hyper(%b) step(%t)
  %c = quantize %v1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  commit always %w1 to %w : !altgrad.tensors<f32>, %c to %v : !altgrad.tensors<bf16>
}
