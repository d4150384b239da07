// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // expected-error@+1 {{expected ')'}}
  %w = update @r param(%v, %v) grad(%v) state() hyper()
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // update_c1
  // expected-error@+1 {{'altgrad.update' op applies 's', which is no rule}}
  %w = update @s param(%v) grad(%v) state() hyper()
  commit
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, option %up: i1 = false) {
  altgrad.yield param(%g) state()
}
altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // update_c2
  // expected-error@+1 {{'altgrad.update' op sets 'down', which is no option of rule 'r'}}
  %w = update @r {up, down} param(%v) grad(%v) state() hyper()
  commit
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32, state %v: f32) {
  altgrad.yield param(%g) state(%v, %m)
}
altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // update_c3
  // expected-error@+1 {{'altgrad.update' op gives 1 state operands, rule 'r' wants 2: m, v}}
  %w, %m = update @r param(%v) grad(%v) state(%v) hyper()
  commit
}

// -----

// Without the option the state is never changed, so it is none.
altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32, option %keep: i1 = false) {
  %m1 = select %keep, %g, %m : f32
  altgrad.yield param(%g) state(%m1)
}
altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // update_c3
  // expected-error@+1 {{'altgrad.update' op gives 1 state operands, rule 'r' wants 0}}
  %w, %m = update @r param(%v) grad(%v) state(%v) hyper()
  commit
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, hyper %lr: f64, hyper %decay: f64) {
  altgrad.yield param(%g) state()
}
altgrad.step @s(in %x: !altgrad.tensors<f32>, in %lr: f64) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // update_c4
  // expected-error@+1 {{'altgrad.update' op gives 1 hyper operands, rule 'r' wants 2: lr, decay}}
  %w = update @r param(%v) grad(%v) state() hyper(%lr)
  commit
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, step %t: i64) {
  altgrad.yield param(%g) state()
}
altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // update_c5
  // expected-error@+1 {{'altgrad.update' op gives 0 step operands, rule 'r' wants 1: t}}
  %w = update @r param(%v) grad(%v) state() hyper()
  commit
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, state %d: f64 per tensor) {
  %d1 = addf %d, %d : f64
  altgrad.yield param(%w) state(%d1: f64)
}
altgrad.step @s(in %x: !altgrad.tensors<f32>, in state %d: f32 per_tensor) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // update_c6
  // expected-error@+1 {{'altgrad.update' op gives 'd' of rule 'r' a 'f32', expected 'f64'}}
  %w, %d1 = update @r param(%v) grad(%v) state() scalar(%d) hyper()
  commit
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32, input %h: f32) {
  %w1 = mulf %w, %h : f32
  altgrad.yield param(%w1) state()
}
altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // update_c7
  // expected-error@+1 {{'altgrad.update' op gives 0 input operands, rule 'r' wants 1: h}}
  %w = update @r param(%v) grad(%v) state() hyper()
  commit
}

// -----

altgrad.rule @r(param %w: f32, grad %g: f32) {
  %z = altgrad.random normal key(0) : f32
  altgrad.yield param(%z) state()
}
altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // update_c8
  // expected-error@+1 {{'altgrad.update' op gives no seed and no count of draws, rule 'r' has random numbers: write random(%seed, %draws)}}
  %w = update @r param(%v) grad(%v) state() hyper()
  commit
}

// -----

// expected-note@+1 {{it is defined here}}
altgrad.step @s(in %x: !altgrad.tensors<f32>, in %lr: f32) {
  %v = dequantize %x : !altgrad.tensors<f32>
  // expected-error@+1 {{is f32 and is used as f64}}
  %w = update @r param(%v) grad(%v) state() hyper(%lr)
  commit
}
