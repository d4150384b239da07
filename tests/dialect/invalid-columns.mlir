// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// What is no block of a column, and no square.

// tensors_c2
// expected-error@+1 {{a block of a column has 32 elements, got 64}}
altgrad.step @s(in %a: !altgrad.tensors<f32 per 64 columns>) {
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32 columns>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  // column_c1
  // expected-error@+1 {{'altgrad.column_max' op has blocks of 64 elements, expected 32}}
  %m = column_max %e over 64 : f32
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, in %n: f32) {
  // column_c2
  // expected-error@+1 {{'altgrad.column_max' op reduces a value that is the same for several elements}}
  %m = column_max %n over 32 : f32
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32 columns>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %m = column_max %e over 32 : f32
  %n = arith.addf %m, %e : f32
  %l = collect %n : f32 to !altgrad.reals
  // step_c28
  // expected-error@+1 {{'altgrad.commit' op stores a value that differs between elements of a column to '!altgrad.tensors<f32 per 32 columns>'; an altgrad.column_max gives one for a block}}
  commit always %l to %top : !altgrad.tensors<f32 per 32 columns>
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>, out %c: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %g : !altgrad.tensors<f32>
  %e = element %x
  %f = element %y
  %m = column_max %e over 32 : f32
  %n = arith.mulf %m, %f : f32
  %l = collect %n : f32 to !altgrad.reals
  // step_c29
  // expected-error@+1 {{'altgrad.commit' op stores what is computed from the largest of a column and from more of its element than that is of}}
  commit always %l to %c : !altgrad.tensors<f32>
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32>) {
  // step_c29
  // expected-error@+1 {{'altgrad.sweep' op stores what is computed from the largest of a column}}
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%top : !altgrad.tensors<f32>) {
    %y = arith.addf %x, %x : f32
    %m = column_max %y over 32 : f32
    %n = arith.mulf %m, %x : f32
    emit %n : f32
  }
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32 columns>, out %n: f32) {
  // sweep_c12
  // expected-error@+1 {{'altgrad.sweep' op takes the largest of columns or squares of 1 values and has 1 reductions, expected one and none}}
  %s = sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce(add over step) store(%top : !altgrad.tensors<f32 per 32 columns>) {
    %m = column_max %x over 32 : f32
    emit %x, %m : f32, f32
  }
  commit always %s to %n : f32
}

// -----

// tensors_c4
// expected-error@+1 {{a square has 128 rows and columns, got 64}}
altgrad.step @s(in %a: !altgrad.tensors<f32 per 64 squares>) {
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 128 squares>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  // square_c1
  // expected-error@+1 {{'altgrad.square_max' op has blocks of 64 rows and columns, expected 128}}
  %m = square_max %e over 64 : f32
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, in %n: f32) {
  // square_c2
  // expected-error@+1 {{'altgrad.square_max' op reduces a value that is the same for all of a square}}
  %m = square_max %n over 128 : f32
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 128 squares>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %e = element %x
  %m = column_max %e over 32 : f32
  %l = collect %m : f32 to !altgrad.reals
  // step_c28
  // expected-error@+1 {{'altgrad.commit' op stores a value that differs between elements of a square to '!altgrad.tensors<f32 per 128 squares>'; an altgrad.square_max gives one for a block}}
  commit always %l to %top : !altgrad.tensors<f32 per 128 squares>
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>, out %c: !altgrad.tensors<f32>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %g : !altgrad.tensors<f32>
  %e = element %x
  %f = element %y
  %m = square_max %e over 128 : f32
  %n = arith.mulf %m, %f : f32
  %l = collect %n : f32 to !altgrad.reals
  // step_c29
  // expected-error@+1 {{'altgrad.commit' op stores what is computed from the largest of a square and from more of its element than that is of}}
  commit always %l to %c : !altgrad.tensors<f32>
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32 columns>, out %most: !altgrad.tensors<f32 per 256>) {
  // sweep_c13
  // expected-error@+1 {{'altgrad.sweep' op takes the largest of columns or squares beside blocks of 256 elements, which tiles of 128 columns would cut}}
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%top : !altgrad.tensors<f32 per 32 columns>, %most : !altgrad.tensors<f32 per 256>) {
    %m = column_max %x over 32 : f32
    %b = block_reduce max %x over 256 : f32
    emit %m, %b : f32, f32
  }
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, in %q: !altgrad.tensors<torchao4 packed>, out %top: !altgrad.tensors<f32 per 32 columns>) {
  // sweep_c15
  // expected-error@+1 {{'altgrad.sweep' op takes the largest of columns or squares beside '!altgrad.tensors<torchao4 packed>', whose bytes tiles would cut}}
  sweep @go load(%x from %w : !altgrad.tensors<f32>, %y from %q : !altgrad.tensors<torchao4 packed>) reduce() store(%top : !altgrad.tensors<f32 per 32 columns>) {
    %m = column_max %x over 32 : f32
    emit %m : f32
  }
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %top: !altgrad.tensors<f32 per 32 columns>) {
  %s = sweep @sum load(%x from %w : !altgrad.tensors<f32>) reduce(sumsq over unit) store() {
    emit %x : f32
  }
  // sweep_c16
  // expected-error@+1 {{'altgrad.sweep' op takes the largest of columns or squares beside what differs between units, which tiles would join}}
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%top : !altgrad.tensors<f32 per 32 columns>) {
    %y = arith.mulf %x, %s : f32
    %m = column_max %y over 32 : f32
    emit %m : f32
  }
  commit
}
