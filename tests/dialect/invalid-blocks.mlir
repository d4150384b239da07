// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// What a block may be, reduce and store.

altgrad.step @s(in %k: f32,
  // tensors_c1
  // expected-error@+1 {{a block is a power of two from 16 to 256, got 48}}
  out %top: !altgrad.tensors<f32 per 48>) {
}

// -----

altgrad.step @s(in %k: f32,
  // tensors_c3
  // expected-error@+1 {{codes of 4 bits are packed, one for each element; #altgrad.format<bnb8> has 8 bits, and 1 element has one}}
  out %top: !altgrad.tensors<bnb8 packed>) {
}

// -----

altgrad.step @s(in %k: f32,
  // tensors_c3
  // expected-error@+1 {{#altgrad.format<ocp.e2m1> has 4 bits, and 32 elements share one}}
  out %top: !altgrad.tensors<ocp.e2m1 per 32 packed>) {
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // block_c1
  // expected-error@+1 {{'altgrad.block_reduce' op has blocks of 8 elements, expected a power of two from 16 to 256}}
  %m = altgrad.block_reduce max %w over 8 : f32
  altgrad.yield param(%m) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // block_c2
  // expected-error@+1 {{'altgrad.block_reduce' op combines by 'add'; blocks have 'max' alone}}
  %m = altgrad.block_reduce add %w over 32 : f32
  altgrad.yield param(%m) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %m = altgrad.block_reduce max %w over 64 : f32
  // block_c3
  // expected-error@+1 {{'altgrad.block_reduce' op reduces a value that is the same for all elements of a block}}
  %n = altgrad.block_reduce max %m over 64 : f32
  altgrad.yield param(%n) state()
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  // step_c19
  // expected-error@+1 {{'altgrad.commit' op stores a value that differs between elements to '!altgrad.tensors<f32 per 32>'; an altgrad.block_reduce gives one for a block}}
  commit always %x to %top : !altgrad.tensors<f32 per 32>
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32>) {
  // step_c19
  // expected-error@+1 {{'altgrad.sweep' op stores a value that differs between elements}}
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%top : !altgrad.tensors<f32 per 32>) {
    emit %x : f32
  }
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 64>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %m = block_reduce max %e over 32 : f32
  %l = collect %m : f32 to !altgrad.reals
  // step_c19
  // expected-error@+1 {{stores a value that differs between elements to '!altgrad.tensors<f32 per 64>'}}
  commit always %l to %top : !altgrad.tensors<f32 per 64>
}

// -----

altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  // sweep_c10
  // expected-error@+1 {{'altgrad.sweep' op has a wide body with other block reductions}}
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    %m = block_reduce max %x over 32 : f32
    emit %m : f32
  } wide 4 (%y) {
    emit %y : vector<4xf32>
  }
  commit
}

// -----

// step_c25
// expected-error@+1 {{'altgrad.step' op has the block_scale '%s' of '!altgrad.tensors<f32 per 32>' with key 's', expected one value per block and another list of its set with this key}}
altgrad.step @s(inout state %m: !altgrad.tensors<bf16>, inout block_scale %s: !altgrad.tensors<f32 per 32>) {
  commit
}

// -----

// step_c25
// expected-error@+1 {{with key 'm', expected one value per block}}
altgrad.step @s(inout state %m: !altgrad.tensors<bf16>, inout block_scale %s as m: !altgrad.tensors<f32>) {
  commit
}
