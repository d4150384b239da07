// RUN: altgrad-opt %s --split-input-file --altgrad-split-sweeps --verify-diagnostics

altgrad.step @lists(inout %w: !altgrad.tensors<f32>) {
  // expected-error@+1 {{'altgrad.dequantize' op is not in element form: it comes before altgrad-inline-rules and the expanding passes}}
  %x = dequantize %w : !altgrad.tensors<f32>
  commit always %x to %w : !altgrad.tensors<f32>
}

// -----

// A phase written by hand would be lost with what it does.
altgrad.step @phases(in %x: f32, out %norm: f32) {
  // expected-error@+1 {{'altgrad.phase' op stands in a step that is still to be planned: phases are made by altgrad-plan-phases}}
  phase @p once {
    %y = read %x : f32
    write %y to %norm : f32
  }
  commit
}
