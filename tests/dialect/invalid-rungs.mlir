// RUN: altgrad-opt %s --split-input-file --verify-diagnostics

altgrad.step @s(in %x: !altgrad.tensors<ocp.e4m3fn>) {
  // recode_c1
  // expected-error@+1 {{'altgrad.recode' op takes '!altgrad.tensors<ocp.e4m3fn>' for '!altgrad.tensors<ocp.e2m1>'; codes of both have the same number of bits, at most 8}}
  %c = recode %x : !altgrad.tensors<ocp.e4m3fn> to !altgrad.tensors<ocp.e2m1>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<bf16>) {
  // expected-error@+1 {{codes of both have the same number of bits, at most 8}}
  %c = recode %x : !altgrad.tensors<bf16> to !altgrad.tensors<f16>
  commit
}

// -----

altgrad.step @s(in %x: !altgrad.tensors<f32>) {
  // expected-error@+1 {{codes of both have the same number of bits, at most 8}}
  %c = recode %x : !altgrad.tensors<f32> to !altgrad.tensors<f32>
  commit
}

// -----

// rule_c13
// expected-error@+1 {{'altgrad.rule' op has more than one value of the parameter}}
altgrad.rule @r(param %w: f32, grad %g: f32, value %x: f32, value %y: f32) {
  altgrad.yield param(%w) state()
}

// -----

llvm.func @f(%c: i8, %x: f32) {
  // advance_code_c1
  // expected-error@+1 {{'altgrad.advance_code' op moves codes of #altgrad.format<int8>, expected a format with a sign, a magnitude and at most 8 bits}}
  %n:4 = altgrad.advance_code %c by %x format<int8> round<toward_zero> : i8
  llvm.return
}

// -----

llvm.func @f(%c: vector<4xi8>, %x: vector<4xf32>, %r: i16) {
  // advance_code_c2
  // expected-error@+1 {{'altgrad.advance_code' op rounds stochastic with a draw}}
  %n:4 = altgrad.advance_code %c by %x format<ocp.e4m3fn> round<stochastic> draw(%r : i16) : vector<4xi8>
  llvm.return
}

// -----

llvm.func @f(%c: i8, %x: f32) {
  // expected-error@+1 {{'altgrad.advance_code' op rounds stochastic with no draw}}
  %n:4 = altgrad.advance_code %c by %x format<ocp.e4m3fn> round<stochastic> : i8
  llvm.return
}
