// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

// What matrices and their products are refused.

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // matrix_c1
  // expected-error@+1 {{'altgrad.matrix' op is of '!altgrad.tensors<ocp.e4m3fn>'; products take bf16, f16 or f32, with a code for each element}}
  %x = altgrad.matrix %g : !altgrad.tensors<ocp.e4m3fn>
  altgrad.yield param(%w)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %c = constant 1.0 : f32
  // matrix_c2
  // expected-error@+1 {{'altgrad.matrix' op makes a matrix of a value that is the same for all elements}}
  %x = altgrad.matrix %c : !altgrad.tensors<bf16>
  altgrad.yield param(%w)
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, out %n: f32) {
  // entry_c1
  // expected-error@+1 {{'altgrad.entry' op is of a list that no altgrad.matrix or altgrad.product gives}}
  %e = entry %x : !altgrad.tensors<f32>
  %r = reduce add %e over step : f32
  commit always %r to %n : f32
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %y: f32, out %n: f32) {
  // gram_c1
  // expected-error@+1 {{'altgrad.gram' op multiplies a list that no altgrad.matrix or altgrad.product gives}}
  %a = gram %x : !altgrad.tensors<f32>
  commit always %y to %n : f32
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %y: f32, out %n: f32) {
  %v = dequantize %x : !altgrad.tensors<f32>
  %e = element %v
  %m = matrix %e : !altgrad.tensors<f32>
  %a = gram %m : !altgrad.tensors<f32>
  // product_c1
  // expected-error@+1 {{'altgrad.product' op multiplies a list that no altgrad.matrix or altgrad.product gives}}
  %p = product %a, %m plus %x : !altgrad.tensors<f32>
  commit always %y to %n : f32
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %x = altgrad.matrix %g : !altgrad.tensors<bf16>
  %a = altgrad.gram %x : !altgrad.tensors<bf16>
  // product_c2
  // expected-error@+1 {{'altgrad.product' op has a factor that is not finite}}
  %p = altgrad.product %a, %x by 0x7FF0000000000000 : !altgrad.tensors<bf16>
  altgrad.yield param(%w)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %x = altgrad.matrix %g : !altgrad.tensors<bf16>
  %a = altgrad.gram %x : !altgrad.tensors<bf16>
  // product_c3
  // expected-error@+1 {{'altgrad.product' op is shifted, and is no square of f16 or f32}}
  %p = altgrad.product %a, %a shift 1.0 : !altgrad.squares<bf16>
  altgrad.yield param(%w)
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %y: f32, out %n: f32) {
  %v = dequantize %x : !altgrad.tensors<f32>
  %e = element %v
  %m = matrix %e : !altgrad.tensors<f32>
  // select_by_aspect_c1
  // expected-error@+1 {{'altgrad.select_by_aspect' op takes a list that no altgrad.product gives}}
  %p = select_by_aspect %m, %m from 1.5 : !altgrad.tensors<f32>
  commit always %y to %n : f32
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %y: f32, out %n: f32) {
  %v = dequantize %x : !altgrad.tensors<f32>
  %e = element %v
  %m = matrix %e : !altgrad.tensors<f32>
  %a = gram %m : !altgrad.tensors<f32>
  %p = product %a, %m : !altgrad.tensors<f32>
  // select_by_aspect_c2
  // expected-error@+1 {{'altgrad.select_by_aspect' op is from 5.000000e-01 on; a longer side is at least 1 times the shorter one}}
  %q = select_by_aspect %p, %p from 0.5 : !altgrad.tensors<f32>
  commit always %y to %n : f32
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %eps: f64) {
  // orthogonalize_c1
  // expected-error@+1 {{'altgrad.orthogonalize' op is in ocp.e5m2; products take bf16, f16 or f32}}
  %o = altgrad.orthogonalize %g coefficients<jordan> steps<5> in<ocp.e5m2> length<clamped> eps(%eps)
  altgrad.yield param(%o)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %eps: f64) {
  // orthogonalize_c2
  // expected-error@+1 {{'altgrad.orthogonalize' op has no known coefficients; write a name (jordan, polar_dion,}}
  %o = altgrad.orthogonalize %g coefficients<jordann> steps<5> in<bf16> length<clamped> eps(%eps)
  altgrad.yield param(%o)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %eps: f64) {
  // expected-error@+1 {{'altgrad.orthogonalize' op has no known coefficients}}
  %o = altgrad.orthogonalize %g coefficients<[1.5, -0.5]> steps<5> in<bf16> length<clamped> eps(%eps)
  altgrad.yield param(%o)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %eps: f64) {
  // orthogonalize_c3
  // expected-error@+1 {{'altgrad.orthogonalize' op has 4 steps; these coefficients are for 5 steps}}
  %o = altgrad.orthogonalize %g coefficients<you> steps<4> in<bf16> length<clamped> eps(%eps)
  altgrad.yield param(%o)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %eps: f64) {
  // expected-error@+1 {{'altgrad.orthogonalize' op has 9 steps; these coefficients are for 1 to 8 steps}}
  %o = altgrad.orthogonalize %g coefficients<polar_emerging> steps<9> in<bf16> length<clamped> eps(%eps)
  altgrad.yield param(%o)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %eps: f64) {
  %c = truncf %eps : f64 to f32
  // orthogonalize_c4
  // expected-error@+1 {{'altgrad.orthogonalize' op is of a value that is the same for all elements}}
  %o = altgrad.orthogonalize %c coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%eps)
  altgrad.yield param(%w)
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %y: f32, out %n: f32) {
  %v = dequantize %x : !altgrad.tensors<f32>
  %e = element %v
  %eps = arith.extf %y : f32 to f64
  %i = index : i64
  %d = arith.sitofp %i : i64 to f32
  %f = arith.addf %d, %e : f32
  // orthogonalize_c5
  // expected-error@+1 {{'altgrad.orthogonalize' op has an eps that differs between elements}}
  %o = orthogonalize %e coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%wide)
  %wide = arith.extf %f : f32 to f64
  commit always %y to %n : f32
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %y: f32, out %n: f32) {
  %a = spill : !altgrad.tensors<f32>
  // multiply_c1
  // expected-error@+1 {{'altgrad.multiply' op multiplies a list that is not in the workspace}}
  multiply gram %x, %x into %a : !altgrad.tensors<f32>
  commit always %y to %n : f32
}

// -----

altgrad.step @s(in %y: f32, out %n: f32) {
  %a = spill : !altgrad.tensors<f32>
  // multiply_c2
  // expected-error@+1 {{'altgrad.multiply' op overwrites what it multiplies}}
  multiply square %a, %a into %a : !altgrad.tensors<f32>
  commit always %y to %n : f32
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %y: f32, out %n: f32) {
  %a = spill : !altgrad.tensors<f32>
  %b = spill : !altgrad.tensors<f32>
  // phase_c9
  // expected-error@+1 {{'altgrad.phase' op has products of matrices and something else}}
  phase @matrix1 rows set 0 {
    multiply gram %a, %a into %b : !altgrad.tensors<f32>
    %k = read %y : f32
  }
  commit
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %e: f64) {
  // orthogonalize_c6
  // expected-error@+1 {{'altgrad.orthogonalize' op makes the rows equal of each matrix of a stack}}
  %o = altgrad.orthogonalize %g over unit equal rows coefficients<jordan> steps<5> in<bf16> length<clamped> eps(%e)
  altgrad.yield param(%o)
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %y: f32, out %n: f32) {
  // matmul_c1
  // expected-error@+1 {{'altgrad.matmul' op multiplies a list that no altgrad.matrix, altgrad.matmul or altgrad.factorize gives}}
  %a = matmul %x, %x transposed : !altgrad.tensors<f32>, !altgrad.tensors<f32> to !altgrad.tensors<f32 per rows x rows>
  commit always %y to %n : f32
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %x = altgrad.matrix %g : !altgrad.tensors<f32>
  // matmul_c2
  // expected-error@+1 {{'altgrad.matmul' op multiplies a matrix of rows x columns and one of rows x columns, which do not fit; transpose one of them, or multiply squares of the other side}}
  %a = altgrad.matmul %x, %x : !altgrad.tensors<f32>, !altgrad.tensors<f32> to !altgrad.tensors<f32>
  altgrad.yield param(%w)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %x = altgrad.matrix %g : !altgrad.tensors<f32>
  // expected-error@+1 {{'altgrad.matmul' op gives '!altgrad.tensors<f32>', and the product is '!altgrad.tensors<f32 per rows x rows>'}}
  %a = altgrad.matmul %x, %x transposed : !altgrad.tensors<f32>, !altgrad.tensors<f32> to !altgrad.tensors<f32>
  altgrad.yield param(%w)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %l: f32 per rows x rows) {
  %x = altgrad.matrix %g : !altgrad.tensors<bf16>
  %m = altgrad.matrix %l : !altgrad.tensors<f32 per rows x rows>
  // matmul_c3
  // expected-error@+1 {{'altgrad.matmul' op multiplies '!altgrad.tensors<f32 per rows x rows>' and '!altgrad.tensors<bf16>', which have two formats}}
  %a = altgrad.matmul %m, %x : !altgrad.tensors<f32 per rows x rows>, !altgrad.tensors<bf16> to !altgrad.tensors<f32>
  altgrad.yield param(%w) state(%l)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %l: f32 per rows x rows) {
  // matmul_c4
  // expected-error@+1 {{'altgrad.reduce' op is of an element of a square of rows x rows, which is reduced over the tensor or the step}}
  %s = altgrad.reduce add %l over row : f32
  %n = addf %w, %s : f32
  altgrad.yield param(%n) state(%l)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %l: f32 per rows x rows) {
  // matmul_c5
  // expected-error@+1 {{'arith.addf' op combines an element of a square of rows x rows with one of another matrix; altgrad.matmul multiplies them}}
  %n = addf %l, %g : f32
  altgrad.yield param(%w) state(%n)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %x = altgrad.matrix %g : !altgrad.tensors<f32>
  // factorize_c1
  // expected-error@+1 {{'altgrad.factorize' op is of '!altgrad.tensors<f32>', and squares are factorized: matrices per rows x rows or per columns x columns}}
  %q = altgrad.factorize eigenbasis %x : !altgrad.tensors<f32>
  altgrad.yield param(%w)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %l: f32 per rows x rows) {
  %m = altgrad.matrix %l : !altgrad.tensors<f32 per rows x rows>
  // factorize_c2
  // expected-error@+1 {{'altgrad.factorize' op finds 'gram'; there are eigenbasis, order by a basis, orthonormal, inverse_root and identity}}
  %q = altgrad.factorize gram %m : !altgrad.tensors<f32 per rows x rows>
  altgrad.yield param(%w) state(%l)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %l: f32 per rows x rows) {
  %m = altgrad.matrix %l : !altgrad.tensors<f32 per rows x rows>
  // factorize_c3
  // expected-error@+1 {{'altgrad.factorize' op has a root that is no finite number above 0}}
  %q = altgrad.factorize inverse_root %m root -2.0 : !altgrad.tensors<f32 per rows x rows>
  altgrad.yield param(%w) state(%l)
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %l: f32 per rows x rows, state %k: f32 per columns x columns) {
  // rule_c18
  // expected-error@+1 {{'altgrad.yield' op gives the state '%k' an element of another matrix; altgrad.matmul gives matrices of other rows and columns}}
  altgrad.yield param(%w) state(%l, %l)
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, out %l: !altgrad.tensors<f32 per rows x rows>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  %e = element %v
  %c = collect %e : f32 to !altgrad.reals
  // step_c28
  // expected-error@+1 {{'altgrad.commit' op stores an element of another matrix to '!altgrad.tensors<f32 per rows x rows>'}}
  commit always %c to %l : !altgrad.tensors<f32 per rows x rows>
}

// -----

altgrad.step @s(in %y: f32, out %n: f32) {
  %a = spill : !altgrad.tensors<f32>
  %b = spill : !altgrad.tensors<f32 per rows x rows>
  // multiply_c4
  // expected-error@+1 {{'altgrad.multiply' op has operands of '!altgrad.tensors<f32>' and '!altgrad.tensors<f32>' that give no '!altgrad.tensors<f32 per rows x rows>'}}
  multiply matmul %a, %a into %b : !altgrad.tensors<f32>, !altgrad.tensors<f32> to !altgrad.tensors<f32 per rows x rows>
  commit always %y to %n : f32
}
