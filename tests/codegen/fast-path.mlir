// RUN: altgrad-opt %s --altgrad-vectorize="width=2" --altgrad-fast-path="target=sm_80" | FileCheck %s --check-prefixes=CHECK,GPU
// RUN: altgrad-opt %s --altgrad-vectorize="width=16" --altgrad-fast-path="target=x86-64-v4" | FileCheck %s --check-prefixes=CHECK,V4
// RUN: altgrad-opt %s --altgrad-vectorize="width=8" --altgrad-fast-path="target=x86-64-v3" | FileCheck %s --check-prefix=V3 --implicit-check-not=fast
// RUN: not altgrad-opt %s --altgrad-fast-path="target=z80" 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// AVX2 keeps its divisions.
// V3: wide 8
// UNKNOWN: error: unknown target 'z80'

// A root divided by a scalar: on a GPU the radicand is tested, on a CPU nothing is.
// CHECK-LABEL: @uniform
altgrad.step @uniform(inout %w: !altgrad.tensors<f32>, in %norm: f32) {
  phase @p chunks set 0 {
    // CHECK: %[[K:.*]] = read %norm
    // GPU: %[[LARGE:.*]] = arith.cmpf oge, %[[K]], %cst{{.*}} : f32
    // GPU: %[[SMALL:.*]] = arith.cmpf ole, %[[K]], %cst{{.*}} : f32
    // GPU: %[[OK:.*]] = arith.andi %[[LARGE]], %[[SMALL]] : i1
    // GPU: %[[Z:.*]] = arith.divf %cst{{.*}}, %[[K]] : f32
    // GPU: %[[SPOILT:.*]] = arith.select %[[OK]], %[[Z]], %cst{{.*}} : f32
    %k = read %norm : f32
    // CHECK: sweep @s
    sweep @s load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
      %r = math.sqrt %x : f32
      %q = arith.divf %r, %k : f32
      %c = encode %q format<f32> round<nearest_even> overflow<nonfinite> : f32 to f32
      emit %c : f32
    }
    // GPU: fast (%[[X:.*]], %[[LOW:.*]], %[[SUM:.*]]) {
    // GPU: %[[BITS:.*]] = arith.bitcast %[[X]]
    // GPU: %[[TWICE:.*]] = arith.addi %[[BITS]], %[[BITS]]
    // GPU: %[[LESS:.*]] = arith.subi %[[TWICE]]
    // GPU: %[[LEAST:.*]] = arith.minui %[[LOW]], %[[LESS]]
    // GPU: rsqrt.approx
    // V4: fast (%{{.*}}, %[[LEAST:.*]], %[[SUM:.*]]) {
    // V4: math.sqrt
    // GPU-NOT: arith.minui
    // GPU: vector.broadcast %[[SPOILT]]
    // CHECK: %[[Q0:.*]] = arith.mulf
    // CHECK: %[[E:.*]] = math.fma %{{.*}}, %[[Q0]], %
    // CHECK: %[[Q:.*]] = math.fma %{{.*}}, %[[E]], %[[Q0]]
    // CHECK: %[[C:.*]] = encode %[[Q]] {{.*}} never_nan
    // CHECK: %[[ALL:.*]] = math.fma %[[Q]], %{{.*}}, %[[SUM]]
    // CHECK: emit %[[C]], %[[LEAST]], %[[ALL]]
  }
  commit
}

// A divisor of each element. Of root + eps neither sign nor zero needs a choice, and
// what is presumed of eps spoils eps.
// CHECK-LABEL: @each
altgrad.step @each(inout %w: !altgrad.tensors<f32>, inout %v: !altgrad.tensors<f32>, in %small: f32) {
  phase @p chunks set 0 {
    %eps = read %small : f32
    // GPU: %[[EPS:.*]] = arith.select %{{.*}}, %{{.*}}, %{{.*}} : f32
    // V4-NOT: fast
    sweep @s load(%n from %w : !altgrad.tensors<f32>, %x from %v : !altgrad.tensors<f32>) reduce()
        store(%w : !altgrad.tensors<f32>, %v : !altgrad.tensors<f32>) {
      %r = math.sqrt %x : f32
      %d = arith.addf %r, %eps : f32
      %q = arith.divf %n, %d : f32
      %u = arith.divf %q, %n : f32
      emit %q, %u : f32, f32
    }
    // GPU: fast
    // GPU: vector.broadcast %[[EPS]]
    // GPU: arith.minui
    // GPU: rcp.approx
    // GPU: fma.rp
    // GPU-NOT: arith.cmpf
    // Of any divisor it does.
    // GPU: rcp.approx
    // GPU: %[[ZERO:.*]] = arith.cmpf oeq
    // GPU: arith.select %[[ZERO]]
  }
  commit
}

// A CPU has none where elements exchange values. On a GPU what a block shares is divided as it was.
// CHECK-LABEL: @exchanged
altgrad.step @exchanged(inout %w: !altgrad.tensors<f32>, in %norm: f32) {
  phase @p chunks set 0 {
    %k = read %norm : f32
    // V4-NOT: fast
    // GPU: fast (
    // GPU: %[[MOST:.*]] = reduce max
    // GPU: arith.divf %[[MOST]]
    // GPU-NOT: arith.divf
    // GPU: arith.minui
    sweep @s load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
      %r = math.sqrt %x : f32
      %most = reduce max %x over block<1x32> : f32
      %part = arith.divf %most, %k : f32
      %y = arith.subf %r, %part : f32
      %q = arith.divf %y, %k : f32
      emit %q : f32
    }
  }
  commit
}

// So do look-ups in a book, but beside a master in halves the registers are full.
// CHECK-LABEL: @looked_up
altgrad.step @looked_up(inout %w: !altgrad.tensors<bnb8>, in %norm: f32) {
  phase @p chunks set 0 {
    %k = read %norm : f32
    // V4-NOT: fast
    // GPU: fast (
    sweep @s load(%x from %w : !altgrad.tensors<bnb8>) reduce() store(%w : !altgrad.tensors<bnb8>) {
      %n = decode %x format<bnb8> : i8 to f32
      %most = reduce max %n over block<1x32> : f32
      %y = arith.subf %n, %most : f32
      %q = arith.divf %y, %k : f32
      %code = encode %q format<bnb8> round<nearest_even> overflow<saturate> : f32 to i8
      emit %code : i8
    }
  }
  commit
}

// CHECK-LABEL: @halves
altgrad.step @halves(inout %w: !altgrad.tensors<bnb8>, in %p: !altgrad.tensors<int16>, in %norm: f32) {
  phase @p chunks set 0 {
    %k = read %norm : f32
    // CHECK-NOT: fast
    sweep @s load(%x from %w : !altgrad.tensors<bnb8>, %c from %p : !altgrad.tensors<int16>) reduce() store(%w : !altgrad.tensors<bnb8>) {
      %n = decode %x format<bnb8> : i8 to f32
      %h = join_codes %c, %c : i16, i16 to f32
      %most = reduce max %n over block<1x32> : f32
      %y = arith.subf %h, %most : f32
      %q = arith.divf %y, %k : f32
      %code = encode %q format<bnb8> round<nearest_even> overflow<saturate> : f32 to i8
      emit %code : i8
    }
  }
  commit
}

// A scalar that is computed in the body has no reciprocal before the sweep.
// CHECK-LABEL: @inside
altgrad.step @inside(inout %w: !altgrad.tensors<f32>, in %norm: f32) {
  phase @p chunks set 0 {
    %k = read %norm : f32
    // V4-NOT: fast
    sweep @s load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
      %d = arith.negf %k : f32
      %r = math.sqrt %x : f32
      %q = arith.divf %r, %d : f32
      emit %q : f32
    }
    // GPU: fast
    // GPU: rcp.approx
  }
  commit
}

// Several sums are no reason against one.
// GPU-LABEL: @sums
altgrad.step @sums(in %w: !altgrad.tensors<f32>, out %x: f32, out %y: f32) {
  %two = arith.constant 2.0 : f32
  // GPU: sweep @s
  %a, %b = sweep @s load(%n from %w : !altgrad.tensors<f32>) reduce(sumsq over step, sumsq over step) store() {
    %q = arith.divf %n, %two : f32
    emit %n, %q : f32, f32
  }
  // GPU: fast
  // GPU: arith.minui
  commit always %a to %x : f32, %b to %y : f32
}
