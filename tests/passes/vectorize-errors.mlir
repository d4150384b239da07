// RUN: altgrad-opt %s --altgrad-vectorize="width=0" --verify-diagnostics
// RUN: altgrad-opt %s --altgrad-vectorize="width=1" --verify-diagnostics
// RUN: altgrad-opt %s --altgrad-vectorize="width=9223372036854775807" --verify-diagnostics

// expected-error-re@+1 {{cannot vectorize by {{[0-9]+}} elements; write 2 to 4096}}
altgrad.step @s(in %k: f32) {
  commit
}
