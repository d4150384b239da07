// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=x86-64-v3 | FileCheck %s --check-prefixes=TWO,ALL
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=x86-64-v4 | FileCheck %s --check-prefixes=ONE,ALL
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-cut-stages=target=sm_80 | FileCheck %s --check-prefix=NONE

// Between bf16 streams the last division waits for a stage of its own on AVX2, with what the first stage
// overwrites; a sweep with other streams has no stages.
// TWO: %[[R:.*]] = math.sqrt
// TWO: stage keep({{.*}}%[[R]]{{.*}}) emit [1]
// TWO-NEXT: stage emit [0]
// ONE: stage emit [0, 1]
// ALL: sweep @wide
// ALL-NOT: stage
// NONE-NOT: stage
altgrad.step @s(inout %w: !altgrad.tensors<bf16>, inout %v: !altgrad.tensors<bf16>, inout %x: !altgrad.tensors<f32>) {
  sweep @words load(%a from %w : !altgrad.tensors<bf16>, %b from %v : !altgrad.tensors<bf16>) reduce()
      store(%w : !altgrad.tensors<bf16>, %v : !altgrad.tensors<bf16>) {
    %y = decode %a format<bf16> : i16 to f32
    %z = decode %b format<bf16> : i16 to f32
    %root = math.sqrt %z : f32
    %q = arith.divf %y, %root : f32
    %c = encode %q format<bf16> round<nearest_even> overflow<nonfinite> : f32 to i16
    %d = encode %root format<bf16> round<nearest_even> overflow<nonfinite> : f32 to i16
    emit %c, %d : i16, i16
  }
  sweep @wide load(%a from %x : !altgrad.tensors<f32>) reduce() store(%x : !altgrad.tensors<f32>) {
    %root = math.sqrt %a : f32
    %q = arith.divf %a, %root : f32
    emit %q : f32
  }
  commit
}
