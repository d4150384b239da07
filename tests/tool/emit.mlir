// RUN: altgrad-opt %s --emit=mlir | FileCheck %s --check-prefix=MLIR
// RUN: altgrad-opt %s --emit=llvm --target=x86-64-v3 | FileCheck %s --check-prefix=LLVM
// RUN: altgrad-opt %s --emit=asm --target=x86-64-v3 | FileCheck %s --check-prefix=ASM
// RUN: altgrad-opt %s --emit=ptx --target=sm_80 | FileCheck %s --check-prefix=PTX
// RUN: altgrad-opt %s --emit=report | FileCheck %s --check-prefix=REPORT
// RUN: altgrad-opt %s --emit=manifest | FileCheck %s --check-prefix=MANIFEST
// RUN: altgrad-opt %s --emit=bundle --target=x86-64-v3,sm_80,sm_80 -o %t.so
// RUN: llvm-nm --dynamic --defined-only %t.so | FileCheck %s --check-prefix=BUNDLE
// RUN: altgrad-opt %s --emit=bundle -o %t.all.so
// RUN: llvm-nm --dynamic --defined-only %t.all.so | FileCheck %s --check-prefix=ALL

// Each product of one step; the results of --emit go to stdout or to a file.
// MLIR: altgrad.step @s(
// MLIR: sweep @update load(
// LLVM: define void @altgrad_s_update_v3(ptr
// LLVM: load <8 x float>
// ASM: altgrad_s_update_v3:
// PTX: .visible .entry altgrad_s_update(
// REPORT: step s: 1 sweep, 8 bytes per element (4 read, 4 written), 1 launch
// MANIFEST: "symbol": "altgrad_s_update"
// BUNDLE-DAG: T altgrad_s_update_v3
// BUNDLE-DAG: altgrad_manifest
// ALL-DAG: T altgrad_s_update_v3
// ALL-DAG: T altgrad_s_update_v4
altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %k: f32) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %y = arith.mulf %e, %k : f32
  %z = collect %y : f32 to !altgrad.reals
  commit always %z to %w : !altgrad.tensors<f32>
}
