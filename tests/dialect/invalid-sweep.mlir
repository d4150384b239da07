// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{expected add|sumsq|max|absmax|and|count over unit|tensor|step}}
  %n = sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce(mean over step) store() {
    emit %a : f32
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{altgrad.sweep has no 'chunk'; there are block, unit, row, column, tensor, step}}
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
  // sweep_c1
  // expected-error@+1 {{'altgrad.sweep' op does not end in altgrad.emit}}
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store() {
    altgrad.yield param(%a) state()
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // sweep_c2
  // expected-error@+1 {{'altgrad.sweep' op has 0 results for 1 reductions}}
  "altgrad.sweep"(%x) <{name = "n", operandSegmentSizes = array<i32: 0, 1, 0>,
      reductions = [#altgrad<reduction add>], scopes = [#altgrad.block<step>]}> ({
  ^bb0(%a: f32):
    "altgrad.emit"(%a) : (f32) -> ()
  }) : (!altgrad.tensors<f32>) -> ()
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %n = sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce(add over step) store() {
    // sweep_c3
    // expected-error@+1 {{'altgrad.emit' op gives 2 values, expected 1 reductions and 0 stores}}
    emit %a, %a : f32, f32
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // sweep_c4
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
    // sweep_c5
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

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %n = "altgrad.sweep"(%x) <{name = "n", operandSegmentSizes = array<i32: 0, 1, 0>,
      reductions = [#altgrad<reduction and>], scopes = [#altgrad.block<step>]}> ({
  ^bb0(%a: f32):
    // sweep_c6
    // expected-error@+1 {{'altgrad.emit' op reduces 'f32' by 'and' to 'f32'}}
    "altgrad.emit"(%a) : (f32) -> ()
  }) : (!altgrad.tensors<f32>) -> f32
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{'altgrad.sweep' op attribute 'reductions' failed to satisfy constraint: reductions}}
  "altgrad.sweep"(%x) <{name = "n", operandSegmentSizes = array<i32: 0, 1, 0>,
                        reductions = [1], scopes = [#altgrad.block<step>]}> ({
  ^bb0(%a: f32):
    "altgrad.emit"() : () -> ()
  }) : (!altgrad.tensors<f32>) -> ()
  commit
}

// -----

//===-- Wide body -----------------------------------------------------------===//

altgrad.step @s(inout %x: !altgrad.tensors<f32>) {
  // sweep_c8
  // expected-error@+1 {{'altgrad.sweep' op has a wide body for 1 elements; write 2 to 4096}}
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store(%x : !altgrad.tensors<f32>) {
    emit %a : f32
  } wide 1 (%a) {
    emit %a : vector<1xf32>
  }
  commit
}

// -----

altgrad.step @s(inout %x: !altgrad.tensors<f32>) {
  // sweep_c9
  // expected-error@+1 {{'altgrad.sweep' op has a wide body of other types than vectors of 4 of its body's}}
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store(%x : !altgrad.tensors<f32>) {
    emit %a : f32
  } wide 4 (%a) {
    emit %a, %a : vector<4xf32>, vector<4xf32>
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // sweep_c7
  // expected-error@+1 {{'altgrad.sweep' op has more than one wide and one fast-path body}}
  "altgrad.sweep"(%x) <{name = "n", operandSegmentSizes = array<i32: 0, 1, 0>,
                        reductions = [], scopes = [], width = 4 : i64}> ({
  ^bb0(%a: f32):
    "altgrad.emit"() : () -> ()
  }, {
  ^bb0(%a: vector<4xf32>):
    "altgrad.emit"() : () -> ()
  }, {
  ^bb0(%a: vector<4xf32>):
    "altgrad.emit"() : () -> ()
  }, {
  ^bb0(%a: vector<4xf32>):
    "altgrad.emit"() : () -> ()
  }) : (!altgrad.tensors<f32>) -> ()
  commit
}

// -----

altgrad.step @s(inout %x: !altgrad.tensors<f32>) {
  // sweep_c11
  // expected-error@+1 {{'altgrad.sweep' op has a fast-path body of other types than its wide body's and a guard's}}
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store(%x : !altgrad.tensors<f32>) {
    emit %a : f32
  } wide 4 (%a) {
    emit %a : vector<4xf32>
  } fast (%a, %low, %sum) {
    emit %a, %sum, %sum : vector<4xf32>, vector<4xf32>, vector<4xf32>
  }
  commit
}

// -----

altgrad.step @s(inout %x: !altgrad.tensors<f32>) {
  // sweep_c14
  // expected-error@+1 {{'altgrad.sweep' op has a fast-path body with other block reductions}}
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store(%x : !altgrad.tensors<f32>) {
    %m = reduce max %a over block<1x32> : f32
    emit %m : f32
  } wide 4 (%a) {
    %m = reduce max %a over block<1x32> : vector<4xf32>
    emit %m : vector<4xf32>
  } fast (%a, %low, %sum) {
    emit %a, %low, %sum : vector<4xf32>, vector<4xi32>, vector<4xf32>
  }
  commit
}

// -----

altgrad.step @s(inout %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{custom op 'altgrad.sweep' has 1 fast-path arguments, expected 3}}
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store(%x : !altgrad.tensors<f32>) {
    emit %a : f32
  } wide 4 (%a) {
    emit %a : vector<4xf32>
  } fast (%a) {
    emit %a : vector<4xf32>
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // sweep_c17
  // expected-error@+1 {{'altgrad.sweep' op reduces over a group, for which there are no sums}}
  %n = sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce(add over group) store() {
    emit %a : f32
  }
  commit
}

// -----

altgrad.step @s(inout %x: !altgrad.tensors<f32>) {
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store(%x : !altgrad.tensors<f32>) {
    // stage_c1
    // expected-error@+1 {{'altgrad.stage' op completes something that is no reduction over blocks}}
    stage reduce(%a : f32) emit [0]
    emit %a : f32
  }
  commit
}

// -----

altgrad.step @s(inout %x: !altgrad.tensors<f32>) {
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store(%x : !altgrad.tensors<f32>) {
    // stage_c2
    // expected-error@+1 {{'altgrad.stage' op stores value 1 of 1 that its body emits}}
    stage emit [0, 1]
    emit %a : f32
  }
  commit
}

// -----

//===-- Words of rules are not said of sweeps ------------------------------------===//

altgrad.step @s(inout %x: !altgrad.tensors<f32>) {
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store(%x : !altgrad.tensors<f32>) {
    emit %a : f32
  } wide 4 (%a) {
    %b = arith.addf %a, %a : vector<4xf32>
    // expected-error@+2 {{'%b' is vector<4xf32> and is used as vector<8xf32>}}
    // expected-note@-2 {{it is defined here}}
    emit %b : vector<8xf32>
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // spill_c1
  // expected-error@+1 {{'altgrad.spill' op is by run and of '!altgrad.tensors<f32>', which has a value for each element}}
  %runs = spill by run : !altgrad.tensors<f32>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %list = spill : !altgrad.tensors<f32 per column>
  // sweep_c22
  // expected-error@+1 {{'altgrad.sweep' op stores to '!altgrad.tensors<f32 per column>' in a walk over chunks; lists per column have walks of their own}}
  sweep @n load(%a from %x : !altgrad.tensors<f32>) reduce() store(%list : !altgrad.tensors<f32 per column>) {
    emit %a : f32
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  %list = spill by run : !altgrad.tensors<f32 per column>
  // sweep_c23
  // expected-error@+1 {{'altgrad.sweep' op goes over runs and does not say how it combines numbers}}
  sweep @n walk runs load(%a from %x : !altgrad.tensors<f32>) reduce() store(%list : !altgrad.tensors<f32 per column>) {
    emit %a : f32
  }
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{'rows' is no walk; there are chunks, runs, heads and columns}}
  sweep @n walk rows load(%a from %x : !altgrad.tensors<f32>) reduce() store() {
    emit
  }
  commit
}
