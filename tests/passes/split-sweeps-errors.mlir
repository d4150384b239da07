// RUN: altgrad-opt %s --split-input-file --altgrad-split-sweeps --verify-diagnostics

altgrad.step @lists(inout %w: !altgrad.tensors<f32>) {
  // expected-error@+1 {{'altgrad.dequantize' op stands in a step that is not in element form yet; run altgrad-expand-formats before altgrad-split-sweeps}}
  %x = dequantize %w : !altgrad.tensors<f32>
  commit always %x to %w : !altgrad.tensors<f32>
}

// -----

// A phase written by hand would be lost with what it does.
altgrad.step @phases(in %x: f32, out %norm: f32) {
  // expected-error@+1 {{'altgrad.phase' op stands in a step that is planned in phases already; run altgrad-split-sweeps before altgrad-plan-phases}}
  phase @p once {
    %y = read %x : f32
    write %y to %norm : f32
  }
  commit
}
