// RUN: altgrad-opt %s --verify-roundtrip | FileCheck %s
// RUN: altgrad-opt %s --mlir-print-op-generic | altgrad-opt | FileCheck %s
// RUN: altgrad-opt %s --altgrad-inline-rules | FileCheck %s --check-prefix=INLINE

!e4m3 = !altgrad.tensors<ocp.e4m3fn>
!places = !altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none>>

altgrad.rule @down(param %w: f32, value %x: f32, grad %g: f32) {
  %r = mulf %x, %g : f32
  %w1 = subf %w, %r : f32
  altgrad.yield param(%w1) state()
}
altgrad.rule @up(param %w: f32, grad %g: f32) {
  %w1 = addf %g, %w : f32
  altgrad.yield param(%w1) state()
}
altgrad.rule @scaled(param %w: f32, grad %g: f32) {
  %w1 = mulf %w, %g : f32
  altgrad.yield param(%w1) state()
}

// CHECK-LABEL: altgrad.step @train
// INLINE-LABEL: altgrad.step @train
altgrad.step @train(in %grads: !altgrad.tensors<f32>, in %codes: !e4m3, out %out: !altgrad.tensors<f32>,
                    out %out2: !altgrad.tensors<f32>, out %out3: !altgrad.tensors<f32>, out %out4: !altgrad.tensors<f32>) {
  %g = dequantize %grads : !altgrad.tensors<f32>
  %x = dequantize %codes : !e4m3
  // CHECK: recode %codes : !altgrad.tensors<ocp.e4m3fn> to !altgrad.tensors<#altgrad.format<exponent = 0, mantissa = 7, bias = -7, inf = false, nan = none>>
  %places = recode %codes : !e4m3 to !places
  %w = dequantize %places : !places
  // What is subtracted last is the change: no sum is rounded.
  // CHECK: update @down param(%{{.*}}) grad(%{{.*}}) state() hyper() value(%{{.*}})
  // INLINE: %[[R:.*]] = arith.mulf
  // INLINE-NOT: subf
  // INLINE: %[[D:.*]] = arith.negf %[[R]]
  // INLINE-NEXT: collect %[[D]]
  %d = update @down param(%w) grad(%g) state() hyper() value(%x)
  // INLINE: collect %[[G:.*]] : f32
  %u = update @up param(%w) grad(%g) state() hyper() value(%x)
  // Elsewhere it is the difference.
  // INLINE: %[[P:.*]] = arith.mulf
  // INLINE-NEXT: %[[S:.*]] = arith.subf %[[P]]
  // INLINE-NEXT: collect %[[S]]
  %s = update @scaled param(%w) grad(%g) state() hyper() value(%x)
  // Without a value the parameter is its own.
  // INLINE: %[[V:.*]] = element
  // INLINE: arith.mulf %[[V]]
  // INLINE-NEXT: arith.subf %[[V]]
  %v = update @down param(%x) grad(%g) state() hyper()
  commit always %d to %out : !altgrad.tensors<f32>, %u to %out2 : !altgrad.tensors<f32>,
      %s to %out3 : !altgrad.tensors<f32>, %v to %out4 : !altgrad.tensors<f32>
}

// CHECK-LABEL: altgrad.step @move
altgrad.step @move(in %codes: !e4m3, in %seed: i64, in %by: !altgrad.tensors<f32>, out %out: !e4m3) {
  %c = load %codes : !e4m3
  %changes = dequantize %by : !altgrad.tensors<f32>
  %x = element %changes
  %r = draw seed(%seed) step(%seed) store(0) : i32
  // CHECK: %[[N:.*]], %{{.*}}, %{{.*}}, %{{.*}} = advance_code %{{.*}} by %{{.*}} format<ocp.e4m3fn> round<stochastic> draw(%{{.*}} : i32) : i8
  %next, %moved, %up, %beyond = advance_code %c by %x format<ocp.e4m3fn> round<stochastic> draw(%r : i32) : i8
  // CHECK: advance_code %[[N]] by %{{.*}} format<ocp.e4m3fn> round<toward_zero> : i8
  %last, %moved2, %up2, %beyond2 = advance_code %next by %x format<ocp.e4m3fn> round<toward_zero> : i8
  %list = collect %last : i8 to !e4m3
  commit always %list to %out : !e4m3
}
