// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// What is no block of a column, and no square.

// tensors_c1
// expected-error@+1 {{no target can cut #altgrad.block<64x1>}}
altgrad.step @s(in %a: !altgrad.tensors<f32 per 64x1>) {
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  // reduce_c2
  // expected-error@+1 {{'altgrad.reduce' op no target can cut #altgrad.block<64x1>}}
  %m = reduce absmax %e over block<64x1> : f32
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, in %n: f32) {
  // step_c5
  // expected-error@+1 {{'altgrad.reduce' op reduces a value that is the same for all elements of its block; leave the reduction out, or the block of the state or copy that stores it}}
  %m = reduce absmax %n over block<32x1> : f32
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %m = reduce absmax %e over block<32x1> : f32
  %n = arith.addf %m, %e : f32
  %l = collect %n : f32 to !altgrad.reals
  // step_c19
  // expected-error@+1 {{'altgrad.commit' op stores a value that differs between elements of a block to '!altgrad.tensors<f32 per 32x1>'; an altgrad.reduce over #altgrad.block<32x1> gives one for each}}
  commit always %l to %top : !altgrad.tensors<f32 per 32x1>
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32>) {
  // sweep_c16
  // expected-error@+1 {{'altgrad.sweep' op stores what is computed from a reduction over #altgrad.block<32x1>}}
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%top : !altgrad.tensors<f32>) {
    %y = arith.addf %x, %x : f32
    %m = reduce absmax %y over block<32x1> : f32
    %n = arith.mulf %m, %x : f32
    emit %n : f32
  }
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>, out %n: f32) {
  %s = sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce(add over step) store(%top : !altgrad.tensors<f32 per 32x1>) {
    // sweep_c12
    // expected-error@+1 {{'altgrad.reduce' op is over #altgrad.block<32x1> in a sweep that has 1 of all elements}}
    %m = reduce absmax %x over block<32x1> : f32
    emit %x, %m : f32, f32
  }
  commit always %s to %n : f32
}

// -----

// tensors_c1
// expected-error@+1 {{no target can cut #altgrad.block<64x64>}}
altgrad.step @s(in %a: !altgrad.tensors<f32 per 64x64>) {
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 128x128>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  // reduce_c2
  // expected-error@+1 {{'altgrad.reduce' op no target can cut #altgrad.block<64x64>}}
  %m = reduce absmax %e over block<64x64> : f32
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, in %n: f32) {
  // step_c5
  // expected-error@+1 {{'altgrad.reduce' op reduces a value that is the same for all elements of its block; leave the reduction out, or the block of the state or copy that stores it}}
  %m = reduce absmax %n over block<128x128> : f32
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 128x128>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %m = reduce absmax %e over block<32x1> : f32
  %l = collect %m : f32 to !altgrad.reals
  // step_c19
  // expected-error@+1 {{'altgrad.commit' op stores a value that differs between elements of a block to '!altgrad.tensors<f32 per 128x128>'}}
  commit always %l to %top : !altgrad.tensors<f32 per 128x128>
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>, out %most: !altgrad.tensors<f32 per 1x256>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%top : !altgrad.tensors<f32 per 32x1>, %most : !altgrad.tensors<f32 per 1x256>) {
    // sweep_c12
    // expected-error@+1 {{'altgrad.reduce' op is over #altgrad.block<32x1> in a sweep that has blocks of 256 elements, which tiles of 128 columns would cut}}
    %m = reduce absmax %x over block<32x1> : f32
    %b = reduce max %x over block<1x256> : f32
    emit %m, %b : f32, f32
  }
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, in %q: !altgrad.tensors<torchao4 packed>, out %top: !altgrad.tensors<f32 per 32x1>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>, %y from %q : !altgrad.tensors<torchao4 packed>) reduce() store(%top : !altgrad.tensors<f32 per 32x1>) {
    // sweep_c12
    // expected-error@+1 {{'altgrad.reduce' op is over #altgrad.block<32x1> in a sweep that has !altgrad.tensors<torchao4 packed>, whose bytes tiles would cut}}
    %m = reduce absmax %x over block<32x1> : f32
    emit %m : f32
  }
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32x1>) {
  %s = sweep @sum load(%x from %w : !altgrad.tensors<f32>) reduce(sumsq over unit) store() {
    emit %x : f32
  }
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%top : !altgrad.tensors<f32 per 32x1>) {
    %y = arith.mulf %x, %s : f32
    // sweep_c12
    // expected-error@+1 {{'altgrad.reduce' op is over #altgrad.block<32x1> in a sweep that has what differs between units, which tiles would join}}
    %m = reduce absmax %y over block<32x1> : f32
    emit %m : f32
  }
  commit
}

// -----

altgrad.step @s(in %top: !altgrad.tensors<f32 per 32x1>, in %most: !altgrad.tensors<f32 per 128x128>, out %w: !altgrad.tensors<f32>) {
  // sweep_c13
  // expected-error@+1 {{'altgrad.sweep' op has blocks over rows of several kinds, one of which is #altgrad.block<128x128>; write it for all}}
  sweep @go load(%x from %top : !altgrad.tensors<f32 per 32x1>, %y from %most : !altgrad.tensors<f32 per 128x128>) reduce() store(%w : !altgrad.tensors<f32>) {
    %z = arith.addf %x, %y : f32
    emit %z : f32
  }
  commit
}

// -----

altgrad.step @s(in %top: !altgrad.tensors<f32 per 32x1>, out %n: f32) {
  // sweep_c12
  // expected-error@+1 {{'altgrad.sweep' op has a list of what columns or squares share, and has 1 of all elements}}
  %s = sweep @go load(%x from %top : !altgrad.tensors<f32 per 32x1>) reduce(add over step) store() {
    emit %x : f32
  }
  commit always %s to %n : f32
}

// -----

altgrad.step @s(in %n: f32, out %top: !altgrad.tensors<f32 per 32x1>) {
  // sweep_c18
  // expected-error@+1 {{'altgrad.sweep' op stores to '!altgrad.tensors<f32 per 32x1>' what comes from no reduction over #altgrad.block<32x1>}}
  sweep @go load() reduce() store(%top : !altgrad.tensors<f32 per 32x1>) {
    emit %n : f32
  }
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %c: !altgrad.tensors<f32>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%c : !altgrad.tensors<f32>) {
    %m = reduce absmax %x over block<32x1> : f32
    // sweep_c15
    // expected-error@+1 {{'altgrad.reduce' op is over #altgrad.block<1x32> of what its sweep computes from a reduction over #altgrad.block<32x1>}}
    %n = reduce max %m over block<1x32> : f32
    emit %n : f32
  }
  commit
}
