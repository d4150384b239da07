// RUN: altgrad-opt %s --altgrad-vectorize="width=0" --verify-diagnostics

// expected-error@+1 {{cannot vectorize by 0 elements}}
altgrad.step @s(in %k: f32) {
  commit
}
