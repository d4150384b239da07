// RUN: altgrad-opt %s --verify-roundtrip | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s

// What is written always, and what only if a condition holds, in one list each.
// CHECK-LABEL: @both
altgrad.step @both(in %max: f32, inout %w: !altgrad.tensors<f32>, out %norm: f32,
                   out %half: !altgrad.tensors<bf16>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %n = arith.addf %max, %max : f32
  %ok = arith.cmpf olt, %n, %max : f32
  %c = quantize %x round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  // CHECK: commit always
  // CHECK-NEXT: %{{.*}} to %norm : f32
  // CHECK-NEXT: if %{{.*}}
  // CHECK-NEXT: %{{.*}} to %w : !altgrad.tensors<f32>,
  // CHECK-NEXT: %{{.*}} to %half : !altgrad.tensors<bf16>
  commit always %n to %norm : f32
      if %ok
      %x to %w : !altgrad.tensors<f32>,
      %c to %half : !altgrad.tensors<bf16>
}

// CHECK-LABEL: @conditional
altgrad.step @conditional(in %limit: f32, inout %n: f32) {
  %ok = arith.cmpf olt, %n, %limit : f32
  // CHECK: commit if %{{.*}}
  // CHECK-NEXT: %limit to %n : f32
  commit if %ok %limit to %n : f32
}

// CHECK-LABEL: @nothing
altgrad.step @nothing(in %limit: f32) {
  // CHECK: commit{{$}}
  commit
}
