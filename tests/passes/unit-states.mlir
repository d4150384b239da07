// RUN: altgrad-opt --rule='normuon{steps=1}' --rule-path=%templates --emit=mlir | FileCheck %s
// RUN: altgrad-opt --set='rule=adamw' --set='rule=muon{steps=1}' --rule-path=%templates --emit=mlir | FileCheck %s --check-prefix=BOTH
// RUN: altgrad-opt --rule='muon' --rule-path=%templates --target=x86-64-v3 --emit=report | FileCheck %s --check-prefix=REPORT

// A number of each row is a scalar of the row's phase; its sum is a fold of the row's chunks. That of the matrix is of all
// its rows' chunks, and the length of what rows are divided by is of their sums: no sweep reads them again.
// CHECK: inout state %second: f32 per_unit
// CHECK: multiply side
// CHECK: phase @update2 chunks
// CHECK: phase @fold3 rows
// CHECK-NEXT: fold sumsq chunk 1 : f32
// CHECK: phase @fold3_1 rows
// CHECK-NEXT: fold sumsq chunk 2 over tensor : f32
// CHECK: phase @rows3 rows
// CHECK: read %second : f32
// CHECK: write %{{.*}} to %second : f32
// CHECK: phase @units4 rows
// CHECK-NEXT: fold add row {{[0-9]+}} over tensor : f32
// CHECK: phase @update3 chunks

// Who multiplies may fail: no set has written anything before the last product, not even a count.
// BOTH: phase @update0
// BOTH-NOT: write
// BOTH-NOT: store(%{{[a-z]}}
// BOTH: multiply side
// BOTH: write %{{.*}} to %t : i64
// BOTH: store(%w : !altgrad.tensors<f32>, %m : !altgrad.tensors<f32>, %v : !altgrad.tensors<f32>)
// BOTH: store(%w_1 : !altgrad.tensors<f32>, %buf_1 : !altgrad.tensors<f32>)

// The momentum's sweep leaves the operand of products, which is then read in 2 bytes.
// REPORT: update0 {{ *}}chunks 8 read, 2 written
// REPORT: update1 {{ *}}chunks 2 read, 2 written
// REPORT: matrix2 {{ *}}rows   15 products
// REPORT: update2 {{ *}}chunks 14 read, 8 written
