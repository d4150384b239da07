// RUN: altgrad-opt %s --altgrad-sweeps | FileCheck %s
// RUN: altgrad-opt %s --emit=asm --target=x86-64-v3 -o /dev/null

// A commit may write a product as it is: the sweep behind it copies the codes.
// CHECK: multiply side {{.*}} into %[[Y:.*]] :
// CHECK: sweep @update1 load(%{{.*}} from %[[Y]] : !altgrad.tensors<bf16>) reduce() store(%w : !altgrad.tensors<bf16>)
altgrad.step @direct(in %g: !altgrad.tensors<f32>, inout %w: !altgrad.tensors<bf16>) {
  %l = load %g : !altgrad.tensors<f32>
  %m = matrix %l : !altgrad.tensors<bf16>
  %a = gram %m : !altgrad.tensors<bf16>
  %y = product %a, %m : !altgrad.tensors<bf16>
  commit always %y to %w : !altgrad.tensors<bf16>
}
