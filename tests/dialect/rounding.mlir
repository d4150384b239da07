// RUN: altgrad-opt %s | altgrad-opt | FileCheck %s
// Rounding toward zero and by a draw, in every form of a step.

// CHECK-LABEL: altgrad.step @s
altgrad.step @s(inout %w: !altgrad.tensors<bf16>, in random %seed: i64, in random %t: i64) {
  %x = dequantize %w : !altgrad.tensors<bf16>
  // CHECK: draw seed(%seed) step(%t) store(7) : i16
  // CHECK: round<stochastic> draw(%{{.*}}) overflow<saturate>
  // CHECK: round<toward_zero> overflow<nonfinite>
  %r = draw seed(%seed) step(%t) store(7) : i16
  %c = quantize %x round<stochastic> draw(%r) overflow<saturate> : !altgrad.tensors<ocp.e4m3fn>
  %z = quantize %x round<toward_zero> overflow<nonfinite> : !altgrad.tensors<bf16>
  sweep @go load(%k from %w : !altgrad.tensors<bf16>) reduce() store(%w : !altgrad.tensors<bf16>) {
    %n = decode %k format<bf16> : i16 to f32
    %d = draw seed(%seed) step(%t) store(0) : i16
    // CHECK: round<stochastic> draw(%{{.*}} : i16) overflow<nonfinite> : f32 to i16
    %e = encode %n format<bf16> round<stochastic> draw(%d : i16) overflow<nonfinite> : f32 to i16
    emit %e : i16
  } wide 4 (%k) {
    %n = decode %k format<bf16> : vector<4xi16> to vector<4xf32>
    // CHECK: draw seed(%seed) step(%t) store(0) : vector<4xi16>
    %d = draw seed(%seed) step(%t) store(0) : vector<4xi16>
    %e = encode %n format<bf16> round<stochastic> draw(%d : vector<4xi16>) overflow<nonfinite> : vector<4xf32> to vector<4xi16>
    emit %e : vector<4xi16>
  }
  commit
}
