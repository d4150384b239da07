// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// What the elements of a block share: rows and columns are apart, so a value for each row of a block and one for each
// column make one for each element. What is stored for a block says it.

// A longer run covers a shorter one, a column of 128 x 128 one of 32.
altgrad.step @covers(in %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32 per 1x32>, out %b: !altgrad.tensors<f32 per 1x64>,
                     out %c: !altgrad.tensors<f32 per 32x1>, in %s: f32 per_tensor) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %m = reduce absmax %e over block<1x64> : f32
  %n = arith.mulf %m, %s : f32
  %l = collect %n : f32 to !altgrad.reals
  %q = reduce absmax %e over block<128x128> : f32
  %k = collect %q : f32 to !altgrad.reals
  commit always %l to %a : !altgrad.tensors<f32 per 1x32>, %l to %b : !altgrad.tensors<f32 per 1x64>, %k to %c : !altgrad.tensors<f32 per 32x1>
}

// -----

// A row's and a column's: an element's.
altgrad.step @meets(in %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32 per 1x32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %m = reduce absmax %e over block<1x32> : f32
  %n = reduce absmax %e over block<32x1> : f32
  %p = arith.addf %m, %n : f32
  %l = collect %p : f32 to !altgrad.reals
  // expected-error@+1 {{stores a value that differs between elements of a block to '!altgrad.tensors<f32 per 1x32>'}}
  commit always %l to %a : !altgrad.tensors<f32 per 1x32>
}

// -----

// A run goes on in the next row, so it is not within one square.
altgrad.step @runs(in %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32 per 1x32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %m = reduce absmax %e over block<128x128> : f32
  %l = collect %m : f32 to !altgrad.reals
  // expected-error@+1 {{stores a value that differs between elements of a block to '!altgrad.tensors<f32 per 1x32>'}}
  commit always %l to %a : !altgrad.tensors<f32 per 1x32>
}

// -----

// The largest of a shorter run differs within a longer one, and not the other way round.
altgrad.rule @shorter(param %w: f32, grad %g: f32) {
  %m = altgrad.reduce max %w over block<1x32> : f32
  %n = altgrad.reduce max %m over block<1x64> : f32
  // expected-error@+1 {{reduces a value that is the same for all elements}}
  %o = altgrad.reduce max %n over block<1x32> : f32
  altgrad.yield param(%o) state()
}
