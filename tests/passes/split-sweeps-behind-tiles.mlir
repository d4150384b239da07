// RUN: altgrad-opt %s --altgrad-sweeps | FileCheck %s
// What reads more of its element than a reduction over a tile does comes in the next sweep.

!f = !altgrad.tensors<f32>

// CHECK-LABEL: @element
// CHECK: %[[KEPT:.*]] = spill : !altgrad.tensors<f32 per 32x1>
// CHECK: sweep @update0 load(%[[X:.*]] from %g {{.*}}) reduce() store(%[[KEPT]] : {{.*}})
// CHECK: reduce absmax %[[X]] over block<32x1>
// CHECK: sweep @update1 load({{.*}} from %w {{.*}}from %[[KEPT]] {{.*}}) reduce() store(%w : !altgrad.tensors<f32>)
// CHECK-NOT: reduce absmax
altgrad.step @element(inout %w: !f, in %g: !f) {
  %ws = dequantize %w : !f
  %x = element %ws
  %gs = dequantize %g : !f
  %y = element %gs
  %m = reduce absmax %y over block<32x1> : f32
  %z = arith.subf %x, %m : f32
  %z1 = collect %z : f32 to !altgrad.reals
  commit always %z1 to %w : !f
}

// What is of the tile alone is kept, and not the reduction that it comes from.
// CHECK-LABEL: @root
// CHECK: sweep @update0
// CHECK: math.sqrt
// CHECK: sweep @update1
// CHECK-NOT: math.sqrt
altgrad.step @root(inout %w: !f, in %g: !f) {
  %ws = dequantize %w : !f
  %x = element %ws
  %gs = dequantize %g : !f
  %y = element %gs
  %m = reduce sumsq %y over block<32x1> : f32
  %r = math.sqrt %m : f32
  %z = arith.divf %x, %r : f32
  %z1 = collect %z : f32 to !altgrad.reals
  commit always %z1 to %w : !f
}

// A sum of what is of tiles is made by chunks, which have it of each element.
// CHECK-LABEL: @summed
// CHECK: spill : !altgrad.tensors<f32>
// CHECK: sweep @update0 {{.*}} reduce() store(%[[KEPT:.*]] :
// CHECK: sweep @reduce1 load({{.*}} from %[[KEPT]] {{.*}}) reduce(sumsq over step) store()
altgrad.step @summed(in %w: !f, out %n: f32) {
  %ws = dequantize %w : !f
  %x = element %ws
  %m = reduce max %x over block<32x1> : f32
  %s = reduce sumsq %m over step : f32
  commit always %s to %n : f32
}

// A tile has one reduction; a second one has a sweep of its own.
// CHECK-LABEL: @twice
// CHECK: sweep @{{.*}} store(%{{.*}} per 32x1>)
// CHECK: sweep @{{.*}} store(%{{.*}} per 32x1>)
altgrad.step @twice(in %w: !f, out %a: !altgrad.tensors<f32 per 32x1>, out %b: !altgrad.tensors<f32 per 32x1>) {
  %ws = dequantize %w : !f
  %x = element %ws
  %m = reduce absmax %x over block<32x1> : f32
  %s = reduce add %x over block<32x1> : f32
  %m1 = collect %m : f32 to !altgrad.reals
  %s1 = collect %s : f32 to !altgrad.reals
  commit always %m1 to %a : !altgrad.tensors<f32 per 32x1>, %s1 to %b : !altgrad.tensors<f32 per 32x1>
}

// Tiles would cut the bytes of packed codes: another sweep leaves the numbers.
// CHECK-LABEL: @packed
// CHECK: sweep @update0 load({{.*}} from %q {{.*}}) reduce() store(%[[KEPT:.*]] : !altgrad.tensors<f32>)
// CHECK: sweep @update1 load({{.*}} from %[[KEPT]] {{.*}}) reduce() store(%a {{.*}})
altgrad.step @packed(in %q: !altgrad.tensors<torchao4 packed>, out %a: !altgrad.tensors<f32 per 32x1>) {
  %ws = dequantize %q : !altgrad.tensors<torchao4 packed>
  %x = element %ws
  %m = reduce absmax %x over block<32x1> : f32
  %m1 = collect %m : f32 to !altgrad.reals
  commit always %m1 to %a : !altgrad.tensors<f32 per 32x1>
}

// A tile that waits for the sweep behind a sum reads a parameter before it is overwritten.
// CHECK-LABEL: @waits
// CHECK-NOT: store(%w
// CHECK: sweep @{{.*}} load({{.*}} from %w {{.*}}) reduce() store(%w
// CHECK: reduce absmax %{{.*}} over block<32x1>
altgrad.step @waits(inout %w: !f, in %g: !f, out %n: f32 per_tensor) {
  %ws = dequantize %w : !f
  %x = element %ws
  %gs = dequantize %g : !f
  %y = element %gs
  %m = reduce absmax %x over block<32x1> : f32
  %s = reduce add %m over tensor : f32
  %a = reduce absmax %y over tensor : f32
  %b = arith.addf %s, %a : f32
  %z1 = collect %y : f32 to !altgrad.reals
  commit always %z1 to %w : !f, %b to %n : f32
}
