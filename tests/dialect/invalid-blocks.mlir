// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// What a block may be, reduce and store.

altgrad.step @s(in %k: f32,
  // tensors_c1
  // expected-error@+1 {{no target can cut #altgrad.block<1x48>; blocks are 1x16 to 1x2048 in powers of two, 32x1, 16x16, 32x32, and 128x128}}
  out %top: !altgrad.tensors<f32 per 1x48>) {
}

// -----

altgrad.step @s(in %k: f32,
  // tensors_c2
  // expected-error@+1 {{codes of 4 bits are packed, one for each element; #altgrad.format<bnb8> has 8 bits, and 1 element has one}}
  out %top: !altgrad.tensors<bnb8 packed>) {
}

// -----

altgrad.step @s(in %k: f32,
  // tensors_c2
  // expected-error@+1 {{#altgrad.format<ocp.e2m1> has 4 bits, and several elements share one}}
  out %top: !altgrad.tensors<ocp.e2m1 per 1x32 packed>) {
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // reduce_c2
  // expected-error@+1 {{'altgrad.reduce' op no target can cut #altgrad.block<1x8>; blocks are 1x16 to 1x2048}}
  %m = altgrad.reduce max %w over block<1x8> : f32
  altgrad.yield param(%m) state()
}

// -----

altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = element %x
  %up = arith.cmpf ogt, %y, %y : f32
  // reduce_c3
  // expected-error@+1 {{'altgrad.reduce' op combines flags by 'count'; over blocks there are 'add', 'sumsq', 'max' and 'absmax', of numbers}}
  %m = reduce count %up over block<1x32> : i1
  %z = collect %m : f32 to !altgrad.reals
  commit always %z to %w : !altgrad.tensors<f32>
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %m = altgrad.reduce max %w over block<1x64> : f32
  // rule_c10
  // expected-error@+1 {{'altgrad.reduce' op reduces a value that is the same for all elements of its block; leave the reduction out, or the block of the state or copy that stores it}}
  %n = altgrad.reduce max %m over block<1x64> : f32
  altgrad.yield param(%n) state()
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 1x32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  // step_c19
  // expected-error@+1 {{'altgrad.commit' op stores a value that differs between elements of a block to '!altgrad.tensors<f32 per 1x32>'; an altgrad.reduce over #altgrad.block<1x32> gives one for each}}
  commit always %x to %top : !altgrad.tensors<f32 per 1x32>
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 1x32>) {
  // step_c19
  // expected-error@+1 {{'altgrad.sweep' op stores a value that differs between elements}}
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%top : !altgrad.tensors<f32 per 1x32>) {
    emit %x : f32
  }
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 1x64>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %m = reduce max %e over block<1x32> : f32
  %l = collect %m : f32 to !altgrad.reals
  // step_c19
  // expected-error@+1 {{stores a value that differs between elements of a block to '!altgrad.tensors<f32 per 1x64>'}}
  commit always %l to %top : !altgrad.tensors<f32 per 1x64>
}

// -----

altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  // sweep_c10
  // expected-error@+1 {{'altgrad.sweep' op has a wide body with other block reductions}}
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    %m = reduce max %x over block<1x32> : f32
    emit %m : f32
  } wide 4 (%y) {
    emit %y : vector<4xf32>
  }
  commit
}

// -----

// step_c25
// expected-error@+1 {{'altgrad.step' op has the block_scale '%s' of '!altgrad.tensors<f32 per 1x32>' with key 's', expected one value per block and another list of its set with this key}}
altgrad.step @s(inout state %m: !altgrad.tensors<bf16>, inout block_scale %s: !altgrad.tensors<f32 per 1x32>) {
  commit
}

// -----

// step_c25
// expected-error@+1 {{with key 'm', expected one value per block}}
altgrad.step @s(inout state %m: !altgrad.tensors<bf16>, inout block_scale %s as m: !altgrad.tensors<f32>) {
  commit
}
