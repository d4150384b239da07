// RUN: altgrad-opt %s --split-input-file --altgrad-fuse-sweeps --remarks-filter=altgrad 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t

// Neither waits for the other: one sweep, and %a is loaded once. What needs the
// first result now stands after both.
// REMARK: [Passed] fuse | Category:altgrad | bytes-after=8, bytes-before=12, sweeps-after=1, sweeps-before=2
// CHECK-LABEL: @merge
altgrad.step @merge(in %a: !altgrad.tensors<f32>, in %b: !altgrad.tensors<f32>, out %s: f32, out %t: f32) {
  %x = sweep @one load(%p from %a : !altgrad.tensors<f32>) reduce(add over step) store() {
    emit %p : f32
  }
  %r = math.sqrt %x : f32
  // CHECK-NOT: math.sqrt
  // CHECK: %[[R:.*]]:2 = sweep @one load(%[[P:.*]] from %a : {{.*}}, %[[Q:.*]] from %b : {{.*}}) reduce(add over step, max over tensor) store() {
  // CHECK-NEXT: %[[D:.*]] = arith.subf %[[P]], %[[Q]] : f32
  // CHECK-NEXT: emit %[[P]], %[[D]] : f32, f32
  // CHECK: math.sqrt %[[R]]#0 : f32
  %y = sweep @two load(%p from %a : !altgrad.tensors<f32>, %q from %b : !altgrad.tensors<f32>)
      reduce(max over tensor) store() {
    %d = arith.subf %p, %q : f32
    emit %d : f32
  }
  commit always %r to %s : f32, %y to %t : f32
}

// -----

// Of two pairs that share a sweep the one that saves more is fused: 8 bytes, not 4.
// REMARK: bytes-after=16, bytes-before=24, sweeps-after=2, sweeps-before=3
// CHECK-LABEL: @best
altgrad.step @best(in %a: !altgrad.tensors<f32>, in %b: !altgrad.tensors<f32>, in %c: !altgrad.tensors<f32>,
                   out %s: f32, out %t: f32, out %u: f32) {
  // CHECK: sweep @one
  // CHECK: sweep @two {{.*}} reduce(max over step, add over step)
  // CHECK-NOT: sweep
  %x = sweep @one load(%p from %a : !altgrad.tensors<f32>) reduce(add over step) store() {
    emit %p : f32
  }
  %y = sweep @two load(%p from %a : !altgrad.tensors<f32>, %q from %b : !altgrad.tensors<f32>,
                       %r from %c : !altgrad.tensors<f32>) reduce(max over step) store() {
    %d = arith.subf %p, %q : f32
    %e = arith.subf %d, %r : f32
    emit %e : f32
  }
  %z = sweep @three load(%q from %b : !altgrad.tensors<f32>, %r from %c : !altgrad.tensors<f32>)
      reduce(add over step) store() {
    %d = arith.subf %q, %x : f32
    %e = arith.mulf %d, %r : f32
    emit %e : f32
  }
  commit always %x to %s : f32, %y to %t : f32, %z to %u : f32
}

// -----

// The second needs the value that the first reduces.
// REMARK: bytes-after=12, bytes-before=12, sweeps-after=2, sweeps-before=2
// CHECK-LABEL: @reduced
altgrad.step @reduced(inout %a: !altgrad.tensors<f32>) {
  // CHECK-COUNT-2: sweep @
  %x = sweep @one load(%p from %a : !altgrad.tensors<f32>) reduce(add over step) store() {
    emit %p : f32
  }
  %n = math.sqrt %x : f32
  sweep @two load(%p from %a : !altgrad.tensors<f32>) reduce() store(%a : !altgrad.tensors<f32>) {
    %d = arith.divf %p, %n : f32
    emit %d : f32
  }
  commit
}

// -----

// The second needs the stream that the first stores.
// REMARK: sweeps-after=2, sweeps-before=2
// CHECK-LABEL: @stored
altgrad.step @stored(in %a: !altgrad.tensors<f32>, out %b: !altgrad.tensors<f32>, out %s: f32) {
  // CHECK-COUNT-2: sweep @
  sweep @one load(%p from %a : !altgrad.tensors<f32>) reduce() store(%b : !altgrad.tensors<f32>) {
    emit %p : f32
  }
  %x = sweep @two load(%p from new %b : !altgrad.tensors<f32>) reduce(add over step) store() {
    emit %p : f32
  }
  commit always %x to %s : f32
}

// -----

// The first has to run whether the condition of the second holds or not.
// REMARK: sweeps-after=2, sweeps-before=2
// CHECK-LABEL: @condition
altgrad.step @condition(in %a: !altgrad.tensors<f32>, out %b: !altgrad.tensors<f32>,
                        out %c: !altgrad.tensors<f32>, in %k: f32) {
  %ok = arith.cmpf olt, %k, %k : f32
  // CHECK-COUNT-2: sweep @
  sweep @one load(%p from %a : !altgrad.tensors<f32>) reduce() store(%b : !altgrad.tensors<f32>) {
    emit %p : f32
  }
  sweep @two if %ok load(%p from %a : !altgrad.tensors<f32>) reduce() store(%c : !altgrad.tensors<f32>) {
    emit %p : f32
  }
  commit
}

// -----

// Nobody sees the sum unless the condition holds: the first may wait for it too.
// REMARK: bytes-after=8, bytes-before=12, sweeps-after=1, sweeps-before=2
// CHECK-LABEL: @guarded
altgrad.step @guarded(in %a: !altgrad.tensors<f32>, out %b: !altgrad.tensors<f32>, out %s: f32, in %k: f32) {
  // CHECK: %[[OK:.*]] = arith.cmpf
  %ok = arith.cmpf olt, %k, %k : f32
  %x = sweep @one load(%p from %a : !altgrad.tensors<f32>) reduce(add over step) store() {
    emit %p : f32
  }
  // CHECK: sweep @two if %[[OK]] load({{.*}}) reduce(add over step) store(%b : !altgrad.tensors<f32>) {
  // CHECK-NOT: sweep @
  sweep @two if %ok load(%p from %a : !altgrad.tensors<f32>) reduce() store(%b : !altgrad.tensors<f32>) {
    emit %p : f32
  }
  // CHECK: commit
  commit if %ok %x to %s : f32
}

// -----

// The sum is written always, so the first may not wait for the condition.
// REMARK: sweeps-after=2, sweeps-before=2
// CHECK-LABEL: @seen
altgrad.step @seen(in %a: !altgrad.tensors<f32>, out %b: !altgrad.tensors<f32>, out %s: f32, in %k: f32) {
  %ok = arith.cmpf olt, %k, %k : f32
  // CHECK-COUNT-2: sweep @
  %x = sweep @one load(%p from %a : !altgrad.tensors<f32>) reduce(add over step) store() {
    emit %p : f32
  }
  sweep @two if %ok load(%p from %a : !altgrad.tensors<f32>) reduce() store(%b : !altgrad.tensors<f32>) {
    emit %p : f32
  }
  commit always %x to %s : f32
}

// -----

// A sweep of another set between two does not keep them apart.
// CHECK-LABEL: @between
altgrad.step @between(in %g: !altgrad.tensors<f32>, inout %a: !altgrad.tensors<f32>,
                      in %h: !altgrad.tensors<f32> set 1) {
  // CHECK: sweep @reduce0 load(%{{.*}} from %h
  // CHECK: sweep @update load(%{{.*}} from %g : {{.*}}, %{{.*}} from %a : {{.*}}) reduce(sumsq over step) store(%a
  // CHECK-NOT: sweep
  %s = altgrad.sweep @reduce0 load(%x from %g : !altgrad.tensors<f32>) reduce(sumsq over step) store() {
    emit %x : f32
  }
  %t = altgrad.sweep @reduce0 load(%x from %h : !altgrad.tensors<f32>) reduce(sumsq over step) store() {
    emit %x : f32
  }
  altgrad.sweep @update load(%x from %g : !altgrad.tensors<f32>, %y from %a : !altgrad.tensors<f32>)
      reduce() store(%a : !altgrad.tensors<f32>) {
    %z = arith.mulf %x, %y : f32
    emit %z : f32
  }
  commit
}
