// RUN: altgrad-opt %s --split-input-file --altgrad-fit-resources=target=sm_90 --altgrad-lower-to-gpu=target=sm_90 --verify-diagnostics
// RUN: sed "s/.sm_90. wants 2/'x86-64-v4' wants 16/;s/wide 2/wide 16/;s/before altgrad-fit-resources/before altgrad-lower-to-host/;s/vector<2x/vector<16x/" %s > %t.mlir
// RUN: altgrad-opt %t.mlir --split-input-file --altgrad-lower-to-host="level=x86-64-v4" --verify-diagnostics

// Both want a wide body of the target's width.
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  phase @narrow chunks set 0 {
    // expected-error@+1 {{'altgrad.sweep' op has a body for 4 elements, 'sm_90' wants 2}}
    sweep @narrow load(%a from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
      emit %a : f32
    } wide 4 (%a) {
      emit %a : vector<4xf32>
    }
  }
  commit
}

// -----

// Both want phases.
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  // expected-error@+1 {{'altgrad.sweep' op stands in a step that is not planned in phases yet; run altgrad-plan-phases before altgrad-fit-resources}}
  sweep @loose load(%a from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    emit %a : f32
  } wide 2 (%a) {
    emit %a : vector<2xf32>
  }
  commit
}

// -----

// Both want the stages of blocks.
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  phase @blocks chunks set 0 {
    // expected-error@+1 {{'altgrad.sweep' op has blocks and no stages; run altgrad-cut-stages before altgrad-vectorize}}
    sweep @blocks load(%a from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
      %m = reduce max %a over block<1x32> : f32
      emit %m : f32
    } wide 2 (%a) {
      %m = reduce max %a over block<1x32> : vector<2xf32>
      emit %m : vector<2xf32>
    }
  }
  commit
}
