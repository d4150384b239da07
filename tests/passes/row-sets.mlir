// RUN: altgrad-opt %s --split-input-file --altgrad-split-sweeps --altgrad-fuse-sweeps | FileCheck %s

// No sweep walks the tensors of two sets.
// CHECK-LABEL: @apart
altgrad.step @apart(in %g: !altgrad.tensors<f32>, in %h: !altgrad.tensors<f32> set 1,
                    out %a: !altgrad.tensors<f32>, out %b: !altgrad.tensors<f32> set 1) {
  %x = load %g : !altgrad.tensors<f32>
  %y = load %h : !altgrad.tensors<f32>
  %k = collect %x : f32 to !altgrad.reals
  %l = collect %y : f32 to !altgrad.reals
  // CHECK: sweep @update load(%{{.*}} from %g : {{.*}}) reduce() store(%a : !altgrad.tensors<f32>)
  // CHECK: sweep @update load(%{{.*}} from %h : {{.*}}) reduce() store(%b : !altgrad.tensors<f32>)
  commit always %k to %a : !altgrad.tensors<f32>, %l to %b : !altgrad.tensors<f32>
}

// -----

// One sweep does all lists of a set, though they meet in no operation.
// CHECK-LABEL: @together
altgrad.step @together(in %g: !altgrad.tensors<f32>, in %h: !altgrad.tensors<f32>,
                       out %a: !altgrad.tensors<f32>, out %b: !altgrad.tensors<f32>) {
  %x = load %g : !altgrad.tensors<f32>
  %y = load %h : !altgrad.tensors<f32>
  %k = collect %x : f32 to !altgrad.reals
  %l = collect %y : f32 to !altgrad.reals
  // CHECK: sweep @update load({{.*}} from %g : {{.*}}, {{.*}} from %h : {{.*}}) reduce() store(%a : {{.*}}, %b : {{.*}})
  // CHECK-NOT: sweep
  commit always %k to %a : !altgrad.tensors<f32>, %l to %b : !altgrad.tensors<f32>
}

// -----

// What is one for the step passes from set to set; a list in the workspace is of
// the set whose sweep fills it.
// CHECK-LABEL: @reduced
altgrad.step @reduced(in %g: !altgrad.tensors<f32>, inout %a: !altgrad.tensors<f32> set 1) {
  %x = load %g : !altgrad.tensors<f32>
  %old = load %a : !altgrad.tensors<f32>
  %s = reduce sumsq %x over step : f32
  %p = arith.mulf %old, %s : f32
  %k = collect %p : f32 to !altgrad.reals
  // CHECK: %[[S:.*]] = sweep @reduce0 load(%{{.*}} from %g
  // CHECK: sweep @update1 load(%{{.*}} from %a : !altgrad.tensors<f32>) reduce() store(%a
  // CHECK: arith.mulf %{{.*}}, %[[S]] : f32
  commit always %k to %a : !altgrad.tensors<f32>
}
