// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// What is no block, and what no reduction is over.

// geometry_c1
// expected-error@+1 {{a block of 0 rows and 4 columns has no element}}
#a = #altgrad.block<0x4>

// -----

// expected-error@+1 {{expected rows and columns of a block, such as 1x32}}
#a = #altgrad.block<32>

// -----

// expected-error@+1 {{'chunk' is no block; there are 1x32 and the like, column, unit, tensor, group, step}}
#a = #altgrad.block<chunk>

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %n: f32) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  // reduce_c2
  // expected-error@+1 {{'altgrad.reduce' op reduces single elements}}
  %m = reduce absmax %e over block<1x1> : f32
  commit always %m to %n : f32
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%top : !altgrad.tensors<f32>) {
    %n = reduce absmax %x over block<1x32> : f32
    emit %x : f32
  } wide 4 (%y) {
    // reduce_c4
    // expected-error@+1 {{'altgrad.reduce' op over tensor is of one element, not of a vector}}
    %m = reduce absmax %y over tensor : vector<4xf32>
    emit %y : vector<4xf32>
  }
  commit
}
