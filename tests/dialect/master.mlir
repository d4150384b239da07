// RUN: altgrad-opt %s | altgrad-opt | FileCheck %s
// RUN: altgrad-opt %s --emit=report | FileCheck %s --check-prefix=REPORT
// A master in two lists, as text and in bytes.

// REPORT: step s: 1 sweep, 10 bytes per element (6 read, 4 written), 1 launch
// CHECK-LABEL: altgrad.step @s
altgrad.step @s(inout param %w: !altgrad.tensors<bf16>, in grad %g: !altgrad.tensors<bf16>,
                // CHECK: inout remainder %rest: !altgrad.tensors<int16>
                inout remainder %rest: !altgrad.tensors<int16>) {
  // CHECK: %[[OLD:.*]] = join %w, %rest : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
  %old = join %w, %rest : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
  %grad = dequantize %g : !altgrad.tensors<bf16>
  %x = element %old
  %y = element %grad
  %sum = arith.addf %x, %y : f32
  %new = collect %sum : f32 to !altgrad.reals
  // CHECK: %{{.*}}, %{{.*}} = split %{{.*}} : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
  %c, %r = split %new : !altgrad.tensors<bf16>, !altgrad.tensors<int16>
  commit always %c to %w : !altgrad.tensors<bf16>, %r to %rest : !altgrad.tensors<int16>
}
