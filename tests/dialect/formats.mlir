// RUN: altgrad-opt %s --verify-roundtrip | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s

// An alias is a name in the file; the printed type says the format itself.
#fp8 = #altgrad.format<ocp.e4m3fn>
#tiny = #altgrad.format<exponent = 3, mantissa = 4, bias = 2, inf = false, nan = none>

// CHECK-LABEL: altgrad.step @known(
// CHECK-NEXT: in %a: !altgrad.tensors<f32>
// CHECK-NEXT: in %b: !altgrad.tensors<bf16>
// CHECK-NEXT: in %c: !altgrad.tensors<f16>
// CHECK-NEXT: in %d: !altgrad.tensors<ocp.e4m3fn>
// CHECK-NEXT: in %e: !altgrad.tensors<ocp.e5m2>
altgrad.step @known(
    in %a: !altgrad.tensors<f32>, in %b: !altgrad.tensors<bf16>,
    in %c: !altgrad.tensors<f16>, in %d: !altgrad.tensors<#fp8>,
    in %e: !altgrad.tensors<ocp.e5m2>) {
  commit
}

// The numbers of a known format print as its name, others as numbers.
// CHECK-LABEL: altgrad.step @numbers(
// CHECK-NEXT: in %a: !altgrad.tensors<f16>
// CHECK-NEXT: in %b: !altgrad.tensors<#altgrad.format<exponent = 3, mantissa = 4, bias = 2, inf = false, nan = none>>
// CHECK-NEXT: in %c: !altgrad.tensors<#altgrad.format<exponent = 5, mantissa = 2, bias = 20, inf = true, nan = ieee>>
altgrad.step @numbers(
    in %a: !altgrad.tensors<#altgrad.format<exponent = 5, mantissa = 10, bias = 15, inf = true, nan = ieee>>,
    in %b: !altgrad.tensors<#tiny>,
    in %c: !altgrad.tensors<#altgrad.format<exponent = 5, mantissa = 2, bias = 20, inf = true, nan = ieee>>) {
  commit
}

// Of two names for one format the first is printed.
// CHECK-LABEL: altgrad.step @presets(
// CHECK-NEXT: in %a: !altgrad.tensors<altgrad.e3m4b1>
// CHECK-NEXT: in %b: !altgrad.tensors<ocp.e5m2>
// CHECK-NEXT: in %c: !altgrad.tensors<ocp.e8m0>
// CHECK-NEXT: in %d: !altgrad.tensors<int8>
altgrad.step @presets(
    in %a: !altgrad.tensors<altgrad.e3m4b1>, in %b: !altgrad.tensors<altgrad.e5m2>,
    in %c: !altgrad.tensors<ocp.e8m0>, in %d: !altgrad.tensors<int8>) {
  commit
}

// What is as usual goes without saying, and words come in any order.
// CHECK-LABEL: altgrad.step @words(
// CHECK-NEXT: in %a: !altgrad.tensors<altgrad.e7m0>
// CHECK-NEXT: in %b: !altgrad.tensors<#altgrad.format<exponent = 7, mantissa = 0, bias = 63, inf = false, nan = none>>
// CHECK-NEXT: in %c: !altgrad.tensors<#altgrad.format<exponent = 4, mantissa = 0, bias = -3, inf = false, nan = none, signed = false, zero = false, ties = up>>
// CHECK-NEXT: in %d: !altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 3, bias = 0, inf = false, nan = none, complement = true>>
altgrad.step @words(
    in %a: !altgrad.tensors<#altgrad.format<exponent = 7, mantissa = 0, bias = 63, inf = false, nan = none, ties = down>>,
    in %b: !altgrad.tensors<#altgrad.format<exponent = 7, mantissa = 0, bias = 63, inf = false, nan = none, signed = true, ties = even>>,
    in %c: !altgrad.tensors<#altgrad.format<exponent = 4, mantissa = 0, bias = -3, inf = false, nan = none, ties = up, zero = false, signed = false>>,
    in %d: !altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 3, bias = 0, inf = false, nan = none, complement = true>>) {
  commit
}
