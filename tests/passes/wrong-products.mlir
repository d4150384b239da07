// RUN: altgrad-opt --rule=muon --rule-path=%templates --emit=manifest --target=sm_90 | FileCheck %s --check-prefix=GPU
// RUN: altgrad-opt --rule=muon --rule-path=%templates --emit=manifest --target=x86-64-v3 | FileCheck %s --check-prefix=NONE --implicit-check-not=reduce2
// RUN: altgrad-opt --rule=muon --rule-path=%templates --emit=manifest --target=sm_90 --exchange --clip | FileCheck %s --check-prefix=JOINED
// RUN: altgrad-opt --rule=adamw --rule-path=%templates --emit=manifest --target=sm_90 --exchange --clip --expect-remote-products | FileCheck %s --check-prefix=JOINED
// RUN: not altgrad-opt --rule=adamw --rule-path=%templates --emit=manifest --target=sm_90 --expect-remote-products 2>&1 | FileCheck %s --check-prefix=ALONE
// RUN: altgrad-opt %s --pass-pipeline='builtin.module(altgrad.step(altgrad-expand-matrices))' | FileCheck %s

// A step for a GPU is skipped, and counted, where products have made a NaN of finite numbers: nobody waits for what
// they are. It costs 2 bytes of each element, in a sweep of its own. With other devices' sums there is one exchange more,
// behind that of the norm, also in a step without matrices that hears of theirs.
// GPU: "name": "matrix2"
// GPU: "name": "reduce2"
// GPU: "read": 2
// GPU: "written": 0
// GPU: "key": "skipped"
// NONE: "name": "matrix2"
// JOINED: "exchanges"
// JOINED: "reduction": "sumsq"
// JOINED-NOT: "reduction"
// JOINED: "phase"
// JOINED: "reduction": "max"
// JOINED-NOT: "reduction"
// JOINED: "partials"
// ALONE: --expect-remote-products wants --exchange

// What was multiplied is asked before it is rounded, by the sweep that stores it.
// CHECK: %[[X:.*]] = arith.mulf
// CHECK: %[[IN:.*]] = reduce count %{{.*}} over tensor : i1
// CHECK: %[[SOME:.*]] = arith.cmpf ogt, %[[IN]],
// CHECK: %[[BEFORE:.*]] = arith.ori %{{.*}}, %[[SOME]] : i1
// CHECK: %[[EACH:.*]] = arith.ori %{{.*}}, %[[BEFORE]] : i1
// CHECK: %[[SOUND:.*]] = arith.andi %{{.*}}, %[[EACH]] : i1
// CHECK: reduce and %[[SOUND]] over step : i1
altgrad.step @s(inout %w: !altgrad.tensors<f32>, out %fine: f32) {
  %l = load %w : !altgrad.tensors<f32>
  %two = arith.constant 2.0 : f32
  %x = arith.mulf %l, %two : f32
  %m = matrix %x : !altgrad.tensors<bf16>
  %a = gram %m : !altgrad.tensors<bf16>
  %y = product %a, %m : !altgrad.tensors<bf16>
  %e = entry %y : !altgrad.tensors<bf16>
  %each = products_finite %e : f32
  %all = reduce and %each over step : i1
  %f = arith.select %all, %two, %two : f32
  %r = collect %e : f32 to !altgrad.reals
  commit always %f to %fine : f32 if %all %r to %w : !altgrad.tensors<f32>
}
