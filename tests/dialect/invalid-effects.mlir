// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// No step reads an old content after it was overwritten, whoever wrote the step: a person, or a pass.

altgrad.step @s(inout %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32>) {
  sweep @first load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    %y = arith.negf %x : f32
    emit %y : f32
  }
  // sweep_c19
  // expected-error@+1 {{'altgrad.sweep' op loads what '%w' held before the step, which an earlier sweep has overwritten}}
  sweep @second load(%x from %w : !altgrad.tensors<f32>) reduce() store(%a : !altgrad.tensors<f32>) {
    emit %x : f32
  }
  commit
}

// -----

// Overwritten if a condition holds is overwritten.
altgrad.step @s(inout %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32>, in %k: f32) {
  %ok = arith.cmpf ord, %k, %k : f32
  sweep @first if %ok load() reduce() store(%w : !altgrad.tensors<f32>) {
    emit %k : f32
  }
  // expected-error@+1 {{'altgrad.sweep' op loads what '%w' held before the step}}
  sweep @second if %ok load(%x from %w : !altgrad.tensors<f32>) reduce() store(%a : !altgrad.tensors<f32>) {
    emit %x : f32
  }
  commit
}

// -----

altgrad.step @s(inout %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32>) {
  // sweep_c20
  // expected-error@+1 {{'altgrad.sweep' op loads '%w', where no earlier sweep has stored what it wants under no condition or its own}}
  sweep @first load(%x from new %w : !altgrad.tensors<f32>) reduce() store(%a : !altgrad.tensors<f32>) {
    emit %x : f32
  }
  sweep @second load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    emit %x : f32
  }
  commit
}

// -----

// What was stored under a condition is there under no other.
altgrad.step @s(in %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32>, in %k: f32) {
  %kept = spill : !altgrad.tensors<f32>
  %ok = arith.cmpf ord, %k, %k : f32
  sweep @first if %ok load(%x from %w : !altgrad.tensors<f32>) reduce() store(%kept : !altgrad.tensors<f32>) {
    emit %x : f32
  }
  // expected-error@+1 {{'altgrad.sweep' op loads a list in the workspace, where no earlier sweep has stored what it wants}}
  sweep @second load(%x from %kept : !altgrad.tensors<f32>) reduce() store(%a : !altgrad.tensors<f32>) {
    emit %x : f32
  }
  commit
}

// -----

altgrad.step @s(in %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32>) {
  %kept = spill : !altgrad.tensors<f32>
  sweep @first load(%x from %w : !altgrad.tensors<f32>) reduce() store(%kept : !altgrad.tensors<f32>) {
    emit %x : f32
  }
  // sweep_c21
  // expected-error@+1 {{'altgrad.sweep' op loads a list in the workspace as new, which has nothing from before the step}}
  sweep @second load(%x from new %kept : !altgrad.tensors<f32>) reduce() store(%a : !altgrad.tensors<f32>) {
    emit %x : f32
  }
  commit
}

// -----

// In phases, too.
altgrad.step @s(inout %w: !altgrad.tensors<f32>, out %a: !altgrad.tensors<f32>) {
  phase @one chunks {
    sweep @first load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
      emit %x : f32
    }
  }
  phase @two chunks {
    // expected-error@+1 {{'altgrad.sweep' op loads what '%w' held before the step}}
    sweep @second load(%x from %w : !altgrad.tensors<f32>) reduce() store(%a : !altgrad.tensors<f32>) {
      emit %x : f32
    }
  }
  commit
}

// -----

altgrad.step @s(inout %w: !altgrad.tensors<f32>, inout %v: !altgrad.tensors<f32>) {
  sweep @n load(%x from %w : !altgrad.tensors<f32>, %y from %v : !altgrad.tensors<f32>) reduce()
      store(%w : !altgrad.tensors<f32>, %v : !altgrad.tensors<f32>) {
    %m = reduce absmax %x over block<1x32> : f32
    %n = arith.mulf %m, %x : f32
    stage reduce(%m : f32) emit [0]
    // stage_c3
    // expected-error@+1 {{'altgrad.stage' op loads a list of '!altgrad.tensors<f32>' that an earlier stage has overwritten}}
    stage emit [1]
    emit %y, %n : f32, f32
  }
  commit
}

// -----

altgrad.step @s(inout %x: f32, out %y: f32) {
  phase @one once {
    %a = arith.constant 1.0 : f32
    write %a to %x : f32
  }
  phase @two once {
    // phase_c10
    // expected-error@+1 {{'altgrad.read' op reads what '%x' held before the step, which has been overwritten}}
    %b = read %x : f32
    write %b to %y : f32
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>, inout %x: f32 per_tensor, inout state %r: f32 per_unit) {
  phase @one rows {
    // phase_c11
    // expected-error@+1 {{'altgrad.read' op reads '%x', which its phase writes for another unit of the tensor}}
    %b = read %x : f32
    write %b to %x : f32
    write %b to %r : f32
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  %a = spill : !altgrad.tensors<f32>
  %b = spill : !altgrad.tensors<f32>
  // multiply_c3
  // expected-error@+1 {{'altgrad.multiply' op multiplies a list in the workspace that nothing has filled}}
  multiply gram %a, %a into %b : !altgrad.tensors<f32>
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>, inout %q: !altgrad.tensors<f32 per rows x rows>) {
  %a = spill : !altgrad.tensors<f32>
  sweep @square walk row_squares load(%x from %q : !altgrad.tensors<f32 per rows x rows>) reduce() store(%q : !altgrad.tensors<f32 per rows x rows>) {
    emit %x : f32
  }
  // multiply_c5
  // expected-error@+1 {{'altgrad.multiply' op multiplies what '%q' held before the step, which an earlier sweep has overwritten}}
  multiply matmul %q, %g into %a : !altgrad.tensors<f32 per rows x rows>, !altgrad.tensors<f32> to !altgrad.tensors<f32>
  commit
}
