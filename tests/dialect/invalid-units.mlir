// RUN: altgrad-opt %s --split-input-file --verify-diagnostics
// Where rows of the table are units.

altgrad.step @s(in %g: !altgrad.tensors<f32>, out %n: f32 per_tensor) {
  %x = dequantize %g : !altgrad.tensors<f32>
  %unit = norm l2 %x over unit
  // step_c26
  // expected-error@+1 {{'altgrad.commit' op writes a value that differs between units to '%n'}}
  commit always %unit to %n : f32
}

// -----

altgrad.step @s(inout %g: !altgrad.tensors<f32>) {
  %x = dequantize %g : !altgrad.tensors<f32>
  %unit = norm l2 %x over unit
  %one = arith.constant 1.0 : f32
  %small = arith.cmpf olt, %unit, %one : f32
  // step_c26
  // expected-error@+1 {{'altgrad.commit' op has a condition that differs between units}}
  commit if %small %x to %g : !altgrad.tensors<f32>
}

// -----

// step_c20
// expected-error@+1 {{'altgrad.step' op has '%x' per_unit, which is a state of f32}}
"altgrad.step"() <{sym_name = "s", signature = [#altgrad.argument<access = in, role = none, name = "x", key = "x", scope = unit, set = -1>]}> ({
^bb0(%x: f32):
  "altgrad.commit"() <{operandSegmentSizes = array<i32: 0, 0, 0, 0, 0>}> : () -> ()
}) : () -> ()

// -----

// Tiles join the rows that a block over rows is of.
altgrad.rule @r(param %w: f32, grad %g: f32, unit_state %u: f32) {
  // rule_c10
  // expected-error@+1 {{'altgrad.reduce' op reduces a value that is the same for all elements of a unit}}
  %s = altgrad.reduce sumsq %u over block<32x1> : f32
  %w1 = subf %w, %s : f32
  altgrad.yield param(%w1) state(%u)
}
