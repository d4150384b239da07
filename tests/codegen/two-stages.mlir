// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-vectorize=width=16 --altgrad-lower-to-host=level=x86-64-v4 --canonicalize --cse | FileCheck %s
// RUN: altgrad-opt %s --altgrad-plan-phases --altgrad-vectorize=width=8 --altgrad-lower-to-host --canonicalize --cse | FileCheck %s --check-prefix=V3

// A long chain is cut in the middle: a vector's first root and quotient are computed while the one
// before has its last ones. What both read crosses; the first stage comes once before the loop, the second once behind it.
// CHECK-LABEL: llvm.func @altgrad_s_go_v4
// CHECK: math.sqrt {{.*}} : vector<16xf32>
// CHECK: scf.for {{.*}} iter_args({{.*}}) -> ({{.*}}vector<16xf32>{{.*}})
// CHECK: llvm.store {{.*}} : vector<16xf32>
// CHECK: scf.yield
// CHECK: llvm.store {{.*}} : vector<16xf32>
// V3-LABEL: llvm.func @altgrad_s_go_v3
// V3-NOT: iter_args
altgrad.step @s(inout %w: !altgrad.tensors<f32>) {
  sweep @go load(%x from %w : !altgrad.tensors<f32>) reduce() store(%w : !altgrad.tensors<f32>) {
    %a = math.sqrt %x : f32
    %b = arith.divf %x, %a : f32
    %c = math.sqrt %b : f32
    %d = arith.divf %b, %c : f32
    %e = math.sqrt %d : f32
    %f = arith.divf %d, %e : f32
    emit %f : f32
  }
  commit
}
