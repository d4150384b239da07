// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{expected add|sumsq|max|and over tensor|step}}
  %n = sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce(mean over step) store() {
    emit %a : f32
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{expected add|sumsq|max|and over tensor|step}}
  %n = sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce(add over chunk) store() {
    emit %a : f32
  }
  commit
}

// -----

altgrad.step @s(out %x: !altgrad.tensors<f32>, in %k: f32) {
  // expected-error@+1 {{has 1 wide arguments, expected 0}}
  sweep @n load() reduce() store(%x : !altgrad.tensors<f32>) {
    emit %k : f32
  } wide 4 (%a) {
    emit %a : vector<4xf32>
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{'altgrad.sweep' op does not end in altgrad.emit}}
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store() {
    altgrad.yield param(%a) state()
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{'altgrad.sweep' op has 0 results for 1 reductions}}
  "altgrad.sweep"(%x) <{name = "n", operandSegmentSizes = array<i32: 0, 1, 0>,
      reductions = [#altgrad<reduction add>], scopes = [#altgrad<scope step>]}> ({
  ^bb0(%a: f32):
    "altgrad.emit"(%a) : (f32) -> ()
  }) : (!altgrad.tensors<f32>) -> ()
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %n = sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce(add over step) store() {
    // expected-error@+1 {{'altgrad.emit' op gives 2 values, expected 1 reductions and 0 stores}}
    emit %a, %a : f32, f32
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{'altgrad.sweep' op has 0 body arguments for 1 loads}}
  "altgrad.sweep"(%x) <{name = "n", operandSegmentSizes = array<i32: 0, 1, 0>,
                        reductions = [], scopes = []}> ({
    "altgrad.emit"() : () -> ()
  }) : (!altgrad.tensors<f32>) -> ()
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>, out %y: !altgrad.tensors<bf16>) {
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store(%y : !altgrad.tensors<bf16>) {
    // expected-error@+1 {{'altgrad.emit' op stores 'f32' to a stream of 'i16'}}
    emit %a : f32
  }
  commit
}

// -----

altgrad.step @s(in %x: f32) {
  // expected-error@+1 {{'altgrad.emit' op expects parent op 'altgrad.sweep'}}
  emit %x : f32
}

// -----

//===-- What may stand in it ------------------------------------------------===//

altgrad.step @s(in %x: !altgrad.tensors<f32>, in %k: f32) {
  // expected-error@+1 {{'altgrad.element' op operand #0 must be a list of tensors as f32 values, never stored, but got 'f32'}}
  %y = "altgrad.element"(%k) : (f32) -> f32
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{invalid kind of type specified: expected altgrad.tensors, but found 'f32'}}
  %y = load %x : f32
  commit
}

// -----

altgrad.step @s(in %k: f32) {
  // expected-error@+1 {{'altgrad.spill' op result #0 must be a list of tensors in memory, all of one format, but got 'f32'}}
  %y = "altgrad.spill"() : () -> f32
  commit
}
