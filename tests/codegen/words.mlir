// RUN: altgrad-opt %s --emit=asm --target=x86-64-v3 | FileCheck %s --check-prefixes=CHECK,V3 --implicit-check-not=maskmov
// RUN: altgrad-opt %s --emit=asm --target=x86-64-v4 | FileCheck %s --check-prefixes=CHECK,V4

// Whether all are finite costs no masked store.
// CHECK-LABEL: altgrad_s_reduce0_v{{[34]}}:
// V3: vpmaxsd {{.*}}%ymm
// V4: vpmaxsd {{.*}}%zmm
// CHECK: retq

// Between bf16 streams a CPU takes the halves of words; AVX2 shuffles nothing, AVX-512
// once. A NaN is found by one comparison.
// CHECK-LABEL: altgrad_s_update1_v{{[34]}}:
// V3-NOT: {{vpmovzxwd|vpack|vperm|vextract}}
// V3: vpblendw $170, {{.*}}%ymm
// V3: vcmpunordps {{.*}}%ymm
// V3-NOT: {{vpmovzxwd|vpack|vperm|vextract}}
// V3: vpblendw $170, {{.*}}%ymm
// V3-NEXT: vmovdqu %ymm
// V4-NOT: {{vpmovzxwd|vpmovdw}}
// V4: vpslld $16, {{.*}}%zmm
// V4: vcmpordps {{.*}}%zmm
// V4: vpermt2w {{.*}}%zmm
// V4: vmovdqu64 %zmm
// CHECK: retq
altgrad.rule @sgd(param %w: f32, grad %g: f32) {
  %w1 = subf %w, %g : f32
  altgrad.yield param(%w1) state()
}
altgrad.step @s(in %g: !altgrad.tensors<bf16>, inout %w: !altgrad.tensors<bf16>, in %k: f32) {
  %x = dequantize %w : !altgrad.tensors<bf16>
  %y, %finite = unscale %g by %k : !altgrad.tensors<bf16>
  %w1 = update @sgd param(%x) grad(%y) state() hyper()
  %c = quantize %w1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  commit if %finite %c to %w : !altgrad.tensors<bf16>
}
