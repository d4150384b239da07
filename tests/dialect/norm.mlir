// RUN: altgrad-opt %s --verify-roundtrip | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s

// One norm of lists whose tensors are others, and one of each tensor.
// CHECK-LABEL: @norms
altgrad.step @norms(inout %a: !altgrad.tensors<bf16>, inout %b: !altgrad.tensors<f32> set 1,
                    in %k: f32, out %all: f32, out %each: f32 per_tensor set 1) {
  %x = dequantize %a : !altgrad.tensors<bf16>
  %y = dequantize %b : !altgrad.tensors<f32>
  // CHECK: %[[ALL:.*]] = norm l1 %{{.*}}, %{{.*}} over step
  %sum = norm l1 %x, %y over step
  // CHECK: %[[EACH:.*]] = norm linf %[[Y:.*]] over tensor
  %most = norm linf %y over tensor
  // CHECK: scale %{{.*}} by %k
  %x1 = scale %x by %k
  // CHECK: scale %[[Y]] by %[[EACH]]
  %y1 = scale %y by %most
  %c = quantize %x1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  // CHECK: %[[ALL]] to %all : f32
  // CHECK-NEXT: %[[EACH]] to %each : f32
  commit always %sum to %all : f32, %most to %each : f32, %c to %a : !altgrad.tensors<bf16>,
      %y1 to %b : !altgrad.tensors<f32>
}
