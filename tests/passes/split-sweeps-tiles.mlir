// RUN: altgrad-opt %s --altgrad-sweeps | FileCheck %s
// A sweep over tiles has no sums and cuts no block: the largest of a column is found by a sweep of its own then, from what
// the first one has stored, and the two are not fused again.

// CHECK-LABEL: @summed
// CHECK: sweep @update0 load({{.*}} from %w {{.*}}) reduce(add over step) store(%w : !altgrad.tensors<f32>)
// CHECK: sweep @update1 load({{.*}} from new %w {{.*}}) reduce() store(%top : !altgrad.tensors<f32 per 32x1>)
// CHECK: reduce absmax
altgrad.step @summed(inout %w: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>, out %total: f32) {
  %ws = dequantize %w : !altgrad.tensors<f32>
  %x = element %ws
  %gs = dequantize %g : !altgrad.tensors<f32>
  %z = element %gs
  %y = arith.addf %x, %z : f32
  %sum = reduce add %y over step : f32
  %m = reduce absmax %y over block<32x1> : f32
  %w1 = collect %y : f32 to !altgrad.reals
  %t1 = collect %m : f32 to !altgrad.reals
  commit always %w1 to %w : !altgrad.tensors<f32>, %t1 to %top : !altgrad.tensors<f32 per 32x1>, %sum to %total : f32
}

// What is stored under a condition is read back under the same one.
// CHECK-LABEL: @conditional
// CHECK: reduce(and over step) store()
// CHECK: sweep @update1 if %{{.*}} load({{.*}}) reduce() store(%w {{.*}}, %most : !altgrad.tensors<f32 per 1x256>)
// CHECK: sweep @update2 if %{{.*}} load({{.*}} from new %w {{.*}}) reduce() store(%top : !altgrad.tensors<f32 per 32x1>)
altgrad.step @conditional(inout %w: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>,
                          out %most: !altgrad.tensors<f32 per 1x256>) {
  %ws = dequantize %w : !altgrad.tensors<f32>
  %x = element %ws
  %big = arith.constant 1.0e9 : f32
  %fine = arith.cmpf olt, %x, %big : f32
  %ok = reduce and %fine over step : i1
  %gs = dequantize %g : !altgrad.tensors<f32>
  %z = element %gs
  %y = arith.addf %x, %z : f32
  %b = reduce max %y over block<1x256> : f32
  %m = reduce absmax %y over block<32x1> : f32
  %w1 = collect %y : f32 to !altgrad.reals
  %b1 = collect %b : f32 to !altgrad.reals
  %t1 = collect %m : f32 to !altgrad.reals
  commit if %ok %w1 to %w : !altgrad.tensors<f32>, %b1 to %most : !altgrad.tensors<f32 per 1x256>,
      %t1 to %top : !altgrad.tensors<f32 per 32x1>
}

// Nothing here is read twice but %w, and the sum of the first sweep is of it alone.
// CHECK-LABEL: @apart
// CHECK: sweep @{{.*}} load({{.*}} from %w {{.*}}) reduce(add over step) store()
// CHECK: sweep @{{.*}} load({{.*}} from %w {{.*}}) reduce() store(%top
altgrad.step @apart(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>, out %total: f32) {
  %ws = dequantize %w : !altgrad.tensors<f32>
  %x = element %ws
  %sum = reduce add %x over step : f32
  %m = reduce absmax %x over block<32x1> : f32
  %t1 = collect %m : f32 to !altgrad.reals
  commit always %t1 to %top : !altgrad.tensors<f32 per 32x1>, %sum to %total : f32
}

// Units are rows of a tile: what differs between them has a sweep of its own, though both read %g.
// CHECK-LABEL: @units
// CHECK: sweep @{{.*}} load({{.*}} from %g {{.*}}) reduce() store(%a : !altgrad.tensors<f32>)
// CHECK: sweep @{{.*}} load({{.*}} from %g {{.*}}) reduce() store(%top : !altgrad.tensors<f32 per 32x1>)
altgrad.step @units(in %g: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>) {
  %gs = dequantize %g : !altgrad.tensors<f32>
  %x = element %gs
  %sum = reduce sumsq %x over unit : f32
  %y = arith.minimumf %sum, %x : f32
  %m = reduce absmax %x over block<32x1> : f32
  %a1 = collect %y : f32 to !altgrad.reals
  %t1 = collect %m : f32 to !altgrad.reals
  commit always %a1 to %a : !altgrad.tensors<f32>, %t1 to %top : !altgrad.tensors<f32 per 32x1>
}
