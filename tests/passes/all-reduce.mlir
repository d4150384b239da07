// RUN: altgrad-opt %s --altgrad-inline-rules=exchange | FileCheck %s
// RUN: altgrad-opt %s --altgrad-inline-rules | FileCheck %s --check-prefix=ALONE
// RUN: altgrad-opt %s --exchange --emit=mlir | FileCheck %s --check-prefix=PHASES
// RUN: altgrad-opt %s --exchange --emit=manifest --target=x86-64-v3 | FileCheck %s --check-prefix=MANIFEST

// With an exchange each set's share of a sum over the step has the sum's name, and what a tensor has counts once.
// ALONE-NOT: all_reduce
// ALONE-NOT: has_first
altgrad.rule @r(param %w: f32, grad %g: f32, state %a: f32 per step, state %b: f32 per step) {
  // CHECK: %[[SHARE:.*]] = reduce add %{{.*}} over step
  // CHECK: %[[SUM:.*]] = all_reduce %[[SHARE]] as "r.0" : f32
  %sum = altgrad.reduce add %g over step : f32
  // CHECK: %[[OWN:.*]] = reduce max %{{.*}} over tensor
  %own = altgrad.reduce max %g over tensor : f32
  // CHECK: %[[HERE:.*]] = has_first : i1
  // CHECK: %[[ONCE:.*]] = arith.select %[[HERE]], %[[OWN]], %{{.*}} : f32
  // CHECK: %[[OF:.*]] = across %[[ONCE]] set 0
  // CHECK: all_reduce %[[OF]] as "r.1" : f32
  %tensors = altgrad.reduce add %own over step : f32
  %w1 = subf %w, %g : f32
  altgrad.yield param(%w1) state(%sum, %tensors)
}
// CHECK: %[[OTHER:.*]] = all_reduce %{{.*}} as "r.0" : f32
// CHECK: arith.addf %[[SUM]], %[[OTHER]]
altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>,
                inout %w2: !altgrad.tensors<bf16> set 1, in %g2: !altgrad.tensors<bf16> set 1,
                inout state %a: f32, inout state %b: f32) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %g : !altgrad.tensors<f32>
  %x1, %a1, %b1 = update @r param(%x) grad(%y) state() scalar(%a, %b) hyper()
  %u = dequantize %w2 : !altgrad.tensors<bf16>
  %v = dequantize %g2 : !altgrad.tensors<bf16>
  %u1, %a2, %b2 = update @r param(%u) grad(%v) state() scalar(%a, %b) hyper()
  %code = quantize %u1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  commit always %x1 to %w : !altgrad.tensors<f32>, %code to %w2 : !altgrad.tensors<bf16>, %a1 to %a : f32, %b1 to %b : f32
}

// Each sum has a word of each set, and is joined before somebody reads one of them.
// PHASES: phase @total{{.*}} once exchange
// PHASES: total add row {{[0-9]+}} set 0 as "r.0" : f32
// PHASES: total add row {{[0-9]+}} set 1 as "r.0" : f32
// PHASES: has_first
// PHASES: total add row {{[0-9]+}} set 0 as "r.1" : f32
// PHASES: total add row {{[0-9]+}} set 1 as "r.1" : f32
// MANIFEST: "exchanges":
// MANIFEST: "sum": "r.0"
// MANIFEST: "sum": "r.0"
// MANIFEST: "phase":
// MANIFEST: "sum": "r.1"
// MANIFEST: "sum": "r.1"
