// Where rules are taken: a file, stdin, the rule path, mlir-opt's passes; and places of later messages are those of the text.
// RUN: split-file %s %t
// RUN: altgrad-opt --rule=%t/turn.mlir --emit=report | FileCheck %s
// RUN: altgrad-opt --rule=turn --rule-path=%t --emit=report | FileCheck %s
// RUN: altgrad-opt - --rule= --emit=report < %t/turn.mlir | FileCheck %s
// RUN: altgrad-opt --rule=%t/turn.mlir --print-step | altgrad-opt - --emit=report | FileCheck %s
// CHECK: step turn_step: 1 sweep, 20 bytes per element
// RUN: altgrad-opt %t/turn.mlir | FileCheck %s --check-prefix=IR
// RUN: altgrad-opt < %t/turn.mlir | FileCheck %s --check-prefix=IR
// RUN: altgrad-opt --rule=%t/turn.mlir --print-rule | FileCheck %s --check-prefix=IR
// IR: altgrad.rule @turn(
// IR: %[[M:.*]] = altgrad.lerp %m to %g by
// IR: altgrad.yield param(%{{.*}}) state(%[[M]])
// RUN: altgrad-opt %t/turn.mlir --mlir-print-debuginfo | FileCheck %s --check-prefix=LOC
// LOC: loc("{{.*}}turn.mlir":2:7)
// RUN: not altgrad-opt %t/deep.mlir 2>&1 | FileCheck %s --check-prefix=OPT
// OPT: deep.mlir:2:11: error: 'q' is not defined above
// RUN: altgrad-opt --rule=%t/turn.mlir --storage="m=bf16" --analyze | FileCheck %s --check-prefix=ANALYZE
// ANALYZE: turn.mlir:1:34: warning: state 'm' in bf16
//--- turn.mlir
rule turn(param w, grad g, state m, lr = 1e-3, beta = 0.999)
  m = lerp(m, g, 1 - beta)
  w = w - lr * m
//--- deep.mlir
rule deep(param w, grad g)
  w = w - q
