// RUN: altgrad-opt %s --verify-diagnostics --altgrad-lower-numerics="target=sm_70"
// RUN: sed 's/unknown target .sm_70./unknown x86-64 level "sm_80"/;s/"sm_80"/'"'sm_80'/" %s > %t.mlir
// RUN: altgrad-opt %t.mlir --verify-diagnostics --altgrad-lower-to-host="level=sm_80"
// RUN: sed 's/unknown target .sm_70./unknown GPU "x86-64-v3"/;s/"x86-64-v3"/'"'x86-64-v3'/" %s > %t.mlir
// RUN: altgrad-opt %t.mlir --verify-diagnostics --altgrad-lower-to-gpu="target=x86-64-v3"

// expected-error@+1 {{unknown target 'sm_70'}}
module {
}
