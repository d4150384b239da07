// RUN: altgrad-opt %s --split-input-file --altgrad-split-sweeps --remarks-filter=altgrad 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// A reduction and what it feeds are two sweeps; %y is computed in both, because
// loading 2 bytes again costs less than keeping 4.
// REMARK: [[#@LINE+2]]:1: remark: [Passed] split | Category:altgrad | Reason=recompute, recompute-bytes=12, spill-bytes=12
// CHECK-LABEL: @recompute
altgrad.step @recompute(in %g: !altgrad.tensors<bf16>, inout %w: !altgrad.tensors<f32>) {
  %c = load %g : !altgrad.tensors<bf16>
  %x = decode %c format<bf16> : i16 to f32
  %two = arith.constant 2.0 : f32
  %y = arith.mulf %x, %two : f32
  %s = reduce sumsq %y over step : f32
  %n = math.sqrt %s : f32
  %o = load %w : !altgrad.tensors<f32>
  %d = arith.divf %y, %n : f32
  %r = arith.subf %o, %d : f32
  %l = collect %r : f32 to !altgrad.reals
  // CHECK: %[[S:.*]] = sweep @reduce0 load(%[[G:.*]] from %g : !altgrad.tensors<bf16>) reduce(sumsq over step) store() {
  // CHECK: decode %[[G]]
  // CHECK: %[[Y:.*]] = arith.mulf
  // CHECK: emit %[[Y]] : f32
  // CHECK: sweep @update1 load(%{{.*}} from %w : !altgrad.tensors<f32>, %{{.*}} from %g : !altgrad.tensors<bf16>) reduce() store(%w : !altgrad.tensors<f32>) {
  // CHECK: %[[Y2:.*]] = arith.mulf
  // CHECK: %[[N:.*]] = math.sqrt %[[S]] : f32
  // CHECK: arith.divf %[[Y2]], %[[N]] : f32
  // CHECK: commit{{$}}
  commit always %l to %w : !altgrad.tensors<f32>
}

// -----

// Writes of the `if` list stand in a sweep with the condition, the others in one
// without; scalars stay with commit. One stage needs no choice: no remark.
// REMARK-NOT: remark
// CHECK-LABEL: @conditional
altgrad.step @conditional(in %g: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32>,
                          inout %b: !altgrad.tensors<f32>, inout %t: i64, in %k: f32) {
  %x = load %g : !altgrad.tensors<f32>
  %y = load %b : !altgrad.tensors<f32>
  %ok = arith.cmpf olt, %k, %k : f32
  %one = arith.constant 1 : i64
  %t1 = arith.addi %t, %one : i64
  %l = collect %x : f32 to !altgrad.reals
  %m = collect %y : f32 to !altgrad.reals
  // CHECK: sweep @update load(%{{.*}} from %g : {{.*}}) reduce() store(%a : !altgrad.tensors<f32>)
  // CHECK: %[[OK:.*]] = arith.cmpf olt, %k, %k : f32
  // CHECK: sweep @update if %[[OK]] load(%{{.*}} from %b : {{.*}}) reduce() store(%b : !altgrad.tensors<f32>)
  // CHECK: %[[T1:.*]] = arith.addi %t
  // CHECK: commit if %[[OK]]
  // CHECK-NEXT: %[[T1]] to %t : i64
  commit always %l to %a : !altgrad.tensors<f32>
      if %ok %m to %b : !altgrad.tensors<f32>, %t1 to %t : i64
}
