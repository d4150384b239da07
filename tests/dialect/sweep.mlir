// RUN: altgrad-opt %s --verify-roundtrip | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s

// Loaded codes are named after their streams; reductions leave as values.
// CHECK-LABEL: @reduced
altgrad.step @reduced(in %grads: !altgrad.tensors<bf16>, out %sum: f32, out %n: f32) {
  // CHECK: %[[R:.*]]:3 = sweep @norm load(%[[G:.*]] from %grads : !altgrad.tensors<bf16>)
  // CHECK-SAME: reduce(sumsq over step, and over step, max over tensor) store()
  %s, %ok, %top = sweep @norm load(%g from %grads : !altgrad.tensors<bf16>)
      reduce(sumsq over step, and over step, max over tensor) store() {
    // CHECK-NEXT: %[[X:.*]] = decode %[[G]] format<bf16> : i16 to f32
    %x = decode %g format<bf16> : i16 to f32
    %fine = arith.cmpf ord, %x, %x : f32
    // CHECK: emit %[[X]], %{{.*}}, %[[X]] : f32, i1, f32
    emit %x, %fine, %x : f32, i1, f32
  }
  %n1 = arith.select %ok, %s, %top : f32
  commit always %s to %sum : f32, %n1 to %n : f32
}

// What an earlier sweep has stored is new.
// CHECK-LABEL: @renewed
altgrad.step @renewed(inout %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32>) {
  sweep @first load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    emit %x : f32
  }
  // CHECK: sweep @second load(%{{.*}} from new %w : !altgrad.tensors<f32>) reduce() store(%a : !altgrad.tensors<f32>)
  sweep @second load(%x from new %w : !altgrad.tensors<f32>) reduce() store(%a : !altgrad.tensors<f32>) {
    emit %x : f32
  }
  commit
}

// A condition, a spilled list, a body for whole vectors and a fast-path one.
// CHECK-LABEL: @wide
altgrad.step @wide(inout %w: !altgrad.tensors<f32>, in %limit: f32) {
  // CHECK: %[[KEPT:.*]] = spill : !altgrad.tensors<f32>
  %kept = spill : !altgrad.tensors<f32>
  %ok = arith.cmpf olt, %limit, %limit : f32
  sweep @before load(%a from %w : !altgrad.tensors<f32>) reduce() store(%kept : !altgrad.tensors<f32>) {
    emit %a : f32
  }
  // CHECK: sweep @go if %{{.*}} load(%[[A:.*]] from %w : !altgrad.tensors<f32>, %[[B:.*]] from %[[KEPT]] : !altgrad.tensors<f32>)
  // CHECK-SAME: reduce() store(%w : !altgrad.tensors<f32>) {
  sweep @go if %ok load(%a from %w : !altgrad.tensors<f32>, %b from %kept : !altgrad.tensors<f32>)
      reduce() store(%w : !altgrad.tensors<f32>) {
    %s = arith.addf %a, %b : f32
    %c = encode %s format<f32> round<nearest_even> overflow<nonfinite> : f32 to f32
    emit %c : f32
  // CHECK: } wide 4 (%[[WA:.*]], %[[WB:.*]]) {
  } wide 4 (%a, %b) {
    // CHECK: addf %[[WA]], %[[WB]] : vector<4xf32>
    %s = arith.addf %a, %b : vector<4xf32>
    %c = encode %s format<f32> round<nearest_even> overflow<nonfinite> : vector<4xf32> to vector<4xf32>
    emit %c : vector<4xf32>
  // CHECK: } fast (%[[QA:.*]], %{{.*}}, %[[LOW:.*]], %[[SUM:.*]]) {
  } fast (%a, %b, %low, %sum) {
    // CHECK: encode %[[QA]] format<f32> round<nearest_even> overflow<nonfinite> never_nan : vector<4xf32> to vector<4xf32>
    %c = encode %a format<f32> round<nearest_even> overflow<nonfinite> never_nan : vector<4xf32> to vector<4xf32>
    // CHECK: emit %{{.*}}, %[[LOW]], %[[SUM]] : vector<4xf32>, vector<4xi32>, vector<4xf32>
    emit %c, %low, %sum : vector<4xf32>, vector<4xi32>, vector<4xf32>
  }
  commit
}

// The form between a step and its sweeps, for one element.
// CHECK-LABEL: @element
altgrad.step @element(inout %w: !altgrad.tensors<bf16>, in %k: f32) {
  // CHECK: load %w : !altgrad.tensors<bf16>
  %c = load %w : !altgrad.tensors<bf16>
  %x = decode %c format<bf16> : i16 to f32
  // CHECK: collect %{{.*}} by %k : f32 to !altgrad.reals
  %l = collect %x by %k : f32 to !altgrad.reals
  // CHECK: element %
  %y = element %l
  // CHECK: reduce add %{{.*}} over tensor : f32
  %s = reduce add %y over tensor : f32
  %z = arith.mulf %y, %s : f32
  %d = encode %z format<bf16> round<nearest_even> overflow<saturate> : f32 to i16
  // CHECK: collect %{{.*}} : i16 to !altgrad.tensors<bf16>
  %m = collect %d : i16 to !altgrad.tensors<bf16>
  commit always %m to %w : !altgrad.tensors<bf16>
}
