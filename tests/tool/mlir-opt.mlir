// RUN: altgrad-opt %s --mlir-print-ir-after-all --altgrad-sweeps -o /dev/null 2>&1 | FileCheck %s --check-prefix=AFTER
// RUN: altgrad-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS
// RUN: altgrad-opt %s --pass-pipeline='builtin.module(altgrad-sweeps{canonicalize=false})' --dump-pass-pipeline 2>&1 | FileCheck %s --check-prefix=PIPELINE
// RUN: not altgrad-opt %s --altgrad-frobnicate 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// Without --emit or --rule the tool is mlir-opt, to look inside.
// AFTER: IR Dump After {{.*}}InlineRules
// AFTER: IR Dump After {{.*}}SplitSweeps
// AFTER: IR Dump After {{.*}}FuseSweeps
// AFTER: IR Dump After Canonicalizer
// DIALECTS: Available Dialects: {{.*}}altgrad,arith
// PIPELINE: altgrad-inline-rules
// PIPELINE: altgrad-split-sweeps
// PIPELINE-NOT: canonicalize
// UNKNOWN: Unknown command line argument '--altgrad-frobnicate'
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  commit always %x to %w : !altgrad.tensors<f32>
}
