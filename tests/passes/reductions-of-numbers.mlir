// RUN: altgrad-opt %s --altgrad-inline-rules | FileCheck %s
// RUN: altgrad-opt %s --emit=mlir | FileCheck %s --check-prefix=PHASES

// What is one for each row, column or tensor counts once in what is over it.
altgrad.rule @r(param %w: f32, grad %g: f32, state %r: f32 per row, state %c: f32 per column, state %s: f32 per tensor,
                state %k: f32 per step) {
  %r1 = altgrad.reduce max %g over row : f32
  %c1 = altgrad.reduce max %g over column : f32
  // CHECK: %[[ROWS:.*]] = reduce max %{{.*}} over unit
  // CHECK: %[[COLUMNS:.*]] = reduce max %{{.*}} over column
  // CHECK: %[[SQUARE:.*]] = arith.mulf %[[ROWS]], %[[ROWS]]
  // CHECK: across units %[[SQUARE]]
  %a = altgrad.reduce sumsq %r1 over tensor : f32
  // CHECK: %[[FIRST:.*]] = arith.cmpi slt
  // CHECK: %[[ONCE:.*]] = arith.select %[[FIRST]], %[[COLUMNS]], %{{.*}} : f32
  // CHECK: reduce max %[[ONCE]] over tensor
  %b = altgrad.reduce max %c1 over tensor : f32
  %up = cmpf ogt, %g, %w : f32
  // CHECK: %[[NOT:.*]] = arith.select
  // CHECK: %[[MOST:.*]] = reduce max %[[NOT]] over column
  // CHECK: arith.cmpf ole, %[[MOST]]
  %all = altgrad.reduce and %up over column : i1
  %s1 = addf %a, %b : f32
  // CHECK: across %{{.*}}
  %k1 = altgrad.reduce add %s1 over step : f32
  %w1 = select %all, %g, %w : f32
  altgrad.yield param(%w1) state(%r1, %c1, %s1, %k1)
}
altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>, inout state %c: !altgrad.tensors<f32 per column>,
                inout state %r: f32 per_unit, inout state %s: f32 per_tensor, inout state %k: f32) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %g : !altgrad.tensors<f32>
  %z = dequantize %c : !altgrad.tensors<f32 per column>
  %x1, %z1, %r1, %s1, %k1 = update @r param(%x) grad(%y) state(%z) scalar(%r, %s, %k) hyper()
  commit always %x1 to %w : !altgrad.tensors<f32>, %z1 to %c : !altgrad.tensors<f32 per column>, %r1 to %r : f32,
      %s1 to %s : f32, %k1 to %k : f32
}

// Where rows are units, the first row of a tensor stands for it.
// PHASES: fold add row {{[0-9]+}} over tensor
// PHASES: total add row {{[0-9]+}} of tensors
