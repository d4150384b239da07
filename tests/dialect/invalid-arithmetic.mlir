// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// What the body of a rule, and of a step, may compute.

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // body_c2
  // expected-error@+1 {{'math.tan' op is not on the list of allowed operations}}
  %x = math.tan %w : f32
  altgrad.yield param(%x) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // body_c2
  // expected-error@+1 {{'llvm.inline_asm' op is not on the list of allowed operations}}
  %x = llvm.inline_asm "mov.f32 $0, $1;", "=f,f" %w : (f32) -> f32
  altgrad.yield param(%x) state()
}

// -----

altgrad.step @s(in %x: f32, out %y: f32) {
  // body_c2
  // expected-error@+1 {{'arith.remf' op is not on the list of allowed operations}}
  %z = arith.remf %x, %x : f32
  commit always %z to %y : f32
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // body_c3
  // expected-error@+1 {{'arith.addf' op has fast-math flags}}
  %x = addf %w, %g fastmath<contract> : f32
  altgrad.yield param(%x) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %lr: f64) {
  // body_c4
  // expected-error@+1 {{'arith.truncf' op has a rounding mode; arithmetic rounds to nearest even}}
  %x = truncf %lr upward : f64 to f32
  altgrad.yield param(%x) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // body_c5
  // expected-error@+1 {{'arith.truncf' op computes with a type other than f32, f64, i64 and i1}}
  %x = truncf %w : f32 to bf16
  altgrad.yield param(%w) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // body_c5
  // expected-error@+1 {{'arith.constant' op computes with a type other than f32, f64, i64 and i1}}
  %x = constant dense<1.0> : vector<4xf32>
  altgrad.yield param(%w) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %lr: f64) {
  // body_c6
  // expected-error@+1 {{'math.tanh' op exists for f32 only; of a scalar in f64 write it between truncf and extf}}
  %x = math.tanh %lr : f64
  altgrad.yield param(%w) state()
}

// -----

altgrad.step @s(in %x: f32, in %t: i64, out %y: f32) {
  // body_c6
  // expected-error@+1 {{'math.fpowi' op exists for f64 scalars only}}
  %z = math.fpowi %x, %t : f32, i64
  commit always %z to %y : f32
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %b: f64, option %o: i1 = false) {
  // body_c7
  // expected-error@+1 {{'math.fpowi' op has an exponent that is not i64}}
  %p = math.fpowi %b, %o : f64, i1
  altgrad.yield param(%w) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // body_c8
  // expected-error@+1 {{'arith.extf' op computes elements in 'f64'; elements are f32, i64 or i1}}
  %x = extf %w : f32 to f64
  altgrad.yield param(%w) state()
}

// -----

// An element of a step is held to the same: no f64 stands between its load and its store.
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %x = element %v
  // body_c8
  // expected-error@+1 {{'arith.extf' op computes elements in 'f64'; elements are f32, i64 or i1}}
  %d = arith.extf %x : f32 to f64
  %e = math.exp %d : f64
  %r = arith.truncf %e : f64 to f32
  %z = collect %r : f32 to !altgrad.reals
  commit always %z to %w : !altgrad.tensors<f32>
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %i = altgrad.index : i64
  // body_c9
  // expected-error@+1 {{'arith.shli' op shifts by something other than a constant of 0 to 63}}
  %x = shli %i, %i : i64
  altgrad.yield param(%w) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %i = altgrad.index : i64
  %n = constant 64 : i64
  // body_c9
  // expected-error@+1 {{'arith.shrui' op shifts by something other than a constant of 0 to 63}}
  %x = shrui %i, %n : i64
  altgrad.yield param(%w) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %i = altgrad.index : i64
  // body_c10
  // expected-error@+1 {{'arith.addi' op promises that no bit is lost; integers wrap around}}
  %x = addi %i, %i overflow<nsw> : i64
  altgrad.yield param(%w) state()
}

// -----

altgrad.step @s(inout %t: i64) {
  %n = arith.constant 3 : i64
  // body_c10
  // expected-error@+1 {{'arith.shrui' op promises that no bit is lost; integers wrap around}}
  %x = arith.shrui %t, %n exact : i64
  commit always %x to %t : i64
}

// -----

altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  %v = dequantize %w : !altgrad.tensors<f32>
  %x = element %v
  // body_c11
  // expected-error@+1 {{'arith.fptosi' op makes an integer of an element}}
  %d = arith.fptosi %x : f32 to i64
  %r = arith.sitofp %d : i64 to f32
  %z = collect %r : f32 to !altgrad.reals
  commit always %z to %w : !altgrad.tensors<f32>
}

// -----

//===-- Reductions ----------------------------------------------------------===//

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %lr: f64) {
  %x = truncf %lr : f64 to f32
  // rule_c10
  // expected-error@+1 {{'altgrad.reduce' op reduces a value that is the same for all elements; leave the reduction out, or the scale of the copy that stores it}}
  %s = altgrad.reduce add %x over tensor : f32
  altgrad.yield param(%s) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // reduce_c1
  // expected-error@+1 {{'altgrad.reduce' op reduces over block<1x32>, unit, tensor or step, not over a group}}
  %s = altgrad.reduce add %w over group : f32
  altgrad.yield param(%s) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // expected-error@+1 {{'altgrad.reduce' op failed to verify that 'and' and 'count' combine i1, the other reductions f32}}
  %s = altgrad.reduce and %w over tensor : f32
  altgrad.yield param(%s) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %up = cmpf ogt, %w, %g : f32
  // expected-error@+1 {{'altgrad.reduce' op failed to verify that 'and' and 'count' combine i1, the other reductions f32}}
  %s = altgrad.reduce max %up over tensor : i1
  altgrad.yield param(%w) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %lr: f64) {
  // expected-error@+1 {{'altgrad.reduce' takes f32 or i1, and its operand 1 is f64}}
  %s = altgrad.reduce add %lr over tensor : f64
  altgrad.yield param(%w) state()
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  // expected-error@+1 {{has no 'mean'}}
  %s = altgrad.reduce mean %w over tensor : f32
  altgrad.yield param(%w) state()
}
