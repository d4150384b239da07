// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @p rows {
    // phase_c1
    // expected-error@+1 {{'altgrad.total' op is in a phase of 'rows', expected one of 'once'}}
    %x = total add row 0 : f32
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  // phase_c2
  // expected-error@+1 {{'altgrad.phase' op is over chunks and has 0 sweeps, expected 1}}
  phase @p chunks set 0 {
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>, in %h: !altgrad.tensors<f32> set 1) {
  phase @p chunks set 0 {
    // phase_c3
    // expected-error@+1 {{'altgrad.sweep' op uses '%h', which is not of the set of its phase}}
    %x = sweep @p load(%a from %h : !altgrad.tensors<f32>) reduce(add over step) store() {
      emit %a : f32
    }
    workspace_store %x in chunk 0 : f32
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  // phase_c4
  // expected-error@+1 {{'altgrad.phase' op has an exchange and neither runs once nor folds}}
  phase @p rows exchange {
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  // phase_c5
  // expected-error@+1 {{'altgrad.phase' op is of set 1 of 1}}
  phase @p rows set 1 {
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @p once {
    %c = arith.constant 1.0 : f32
    // read_c1
    // expected-error@+1 {{'altgrad.read' op reads something that is no argument of the step}}
    %x = read %c : f32
  }
  commit
}

// -----

altgrad.step @s(in %x: f32) {
  phase @p once {
    %c = arith.constant 1.0 : f32
    // write_c1
    // expected-error@+1 {{'altgrad.write' op writes something that is no out or inout argument of the step}}
    write %c to %x : f32
  }
  commit
}

// -----

altgrad.step @s(in %x: f32) {
  phase @p once {
    // workspace_load_c1
    // expected-error@+1 {{'altgrad.workspace_load' op recalls step 3, which no earlier phase keeps}}
    %y = workspace_load step 3 : f32
  }
  commit
}

// -----

altgrad.step @s(in %x: f32) {
  phase @p rows {
    %y = read %x : f32
    // workspace_store_c1
    // expected-error@+1 {{'altgrad.workspace_store' op keeps a scalar in a chunk}}
    workspace_store %y in chunk 0 : f32
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @p rows {
    // fold_c1
    // expected-error@+1 {{'altgrad.fold' op by 'and' gives 'f32'}}
    %x = fold and chunk 0 : f32
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @p once {
    // total_c1
    // expected-error@+1 {{'altgrad.total' op by 'add' gives 'i1'}}
    %x = total add row 0 : i1
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @p rows {
    %x = fold add chunk 0 : f32
    // phase_c6
    // expected-error@+1 {{'altgrad.fold' op is beside a fold that is over other chunks: one of both is over tensors, or of squares}}
    %y = fold add chunk 1 over tensor : f32
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @p rows {
    %x = fold add chunk 0 of row_squares : f32
    // expected-error@+1 {{'altgrad.fold' op is beside a fold that is over other chunks: one of both is over tensors, or of squares}}
    %y = fold add chunk 0 : f32
  }
  commit
}

// -----

altgrad.step @s(in %x: f32) {
  phase @p rows {
    %y = read %x : f32
    // workspace_store_c2
    // expected-error@+1 {{'altgrad.workspace_store' op keeps a scalar in a tensor, whose words are those of a row}}
    workspace_store %y in tensor 0 : f32
  }
  commit
}

// -----

altgrad.step @s(in %lr: f64 per_group) {
  phase @p once {
    // phase_c7
    // expected-error@+1 {{'altgrad.read' op is about a tensor or a group, in a phase that runs once for all of them}}
    %x = read %lr : f64
  }
  commit
}

// -----

altgrad.step @s(in %x: f32) {
  phase @p once {
    // expected-error@+1 {{'altgrad.tag' op is about a tensor or a group, in a phase that runs once for all of them}}
    %t = tag : i64
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @p chunks set 0 {
    // phase_c8
    // expected-error@+1 {{'altgrad.sweep' op reduces what its phase keeps in no chunk}}
    %x = sweep @p load(%a from %g : !altgrad.tensors<f32>) reduce(add over step) store() {
      emit %a : f32
    }
  }
  commit
}

// -----

altgrad.step @s(in %x: f32) {
  phase @p once {
    %y = read %x : f32
    workspace_store %y in step 0 : f32
  }
  phase @q once {
    // workspace_load_c2
    // expected-error@+1 {{'altgrad.workspace_load' op recalls step 0 as 'f64', kept as 'f32'}}
    %z = workspace_load step 0 : f64
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @p chunks set 0 {
    %x = sweep @p load(%a from %g : !altgrad.tensors<f32>) reduce(max over step) store() {
      emit %a : f32
    }
    workspace_store %x in chunk 0 : f32
  }
  phase @q rows {
    // fold_c2
    // expected-error@+1 {{'altgrad.fold' op by 'add' is of chunk 0, in which no earlier sweep keeps that}}
    %x = fold add chunk 0 : f32
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @p once {
    // total_c2
    // expected-error@+1 {{'altgrad.total' op by 'add' is of row 3, in which no earlier phase keeps that}}
    %x = total add row 3 : f32
  }
  commit
}

// -----

altgrad.step @s(in hyper %lr: f64 per_group set 0, in %g: !altgrad.tensors<f32>,
                in %h: !altgrad.tensors<f32> set 1) {
  phase @p rows set 1 {
    // phase_c3
    // expected-error@+1 {{'altgrad.read' op uses '%lr', which is not of the set of its phase}}
    %x = read %lr : f64
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>, inout history %norms: f32 per_tensor) {
  phase @p once {
    %n = arith.constant 1.0 : f32
    // phase_c7
    // expected-error@+1 {{'altgrad.percentile' op is about a tensor or a group, in a phase that runs once for all of them}}
    %b = percentile %norms with %n at %n
    write %b to %norms : f32
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>, in %x: f32) {
  // expected-error@+1 {{'altgrad.read' op expects parent op 'altgrad.phase'}}
  %a = read %x : f32
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @a once {
  }
  phase @a_1 once {
  }
  // phase_c12
  // expected-error@+1 {{'altgrad.phase' op has the name 'a' of another phase}}
  phase @a once {
  }
  commit
}

// -----

altgrad.step @s(in %g: !altgrad.tensors<f32>) {
  phase @p rows {
    // fold_c3
    // expected-error@+1 {{'altgrad.fold' op is of row 2, in which no earlier phase keeps a number of each unit}}
    %x = fold add row 2 over tensor : f32
  }
  commit
}
