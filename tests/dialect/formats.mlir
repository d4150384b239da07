// RUN: altgrad-opt %s --verify-roundtrip | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s

// An alias is a name in the file; the printed type says the format itself.
#fp8 = #altgrad.format<ocp.e4m3fn>
#tiny = #altgrad.format<exponent = 3, mantissa = 4, bias = 3, inf = false, nan = none>

// CHECK-LABEL: altgrad.step @known(
// CHECK-SAME: in %a: !altgrad.tensors<f32>
// CHECK-SAME: in %b: !altgrad.tensors<bf16>
// CHECK-SAME: in %c: !altgrad.tensors<f16>
// CHECK-SAME: in %d: !altgrad.tensors<ocp.e4m3fn>
// CHECK-SAME: in %e: !altgrad.tensors<ocp.e5m2>
altgrad.step @known(
    in %a: !altgrad.tensors<f32>, in %b: !altgrad.tensors<bf16>,
    in %c: !altgrad.tensors<f16>, in %d: !altgrad.tensors<#fp8>,
    in %e: !altgrad.tensors<ocp.e5m2>) {
  commit
}

// The numbers of a known format print as its name, others as numbers.
// CHECK-LABEL: altgrad.step @numbers(
// CHECK-SAME: in %a: !altgrad.tensors<f16>
// CHECK-SAME: in %b: !altgrad.tensors<#altgrad.format<exponent = 3, mantissa = 4, bias = 3, inf = false, nan = none>>
// CHECK-SAME: in %c: !altgrad.tensors<#altgrad.format<exponent = 5, mantissa = 2, bias = 20, inf = true, nan = ieee>>
altgrad.step @numbers(
    in %a: !altgrad.tensors<#altgrad.format<exponent = 5, mantissa = 10, bias = 15, inf = true, nan = ieee>>,
    in %b: !altgrad.tensors<#tiny>,
    in %c: !altgrad.tensors<#altgrad.format<exponent = 5, mantissa = 2, bias = 20, inf = true, nan = ieee>>) {
  commit
}
