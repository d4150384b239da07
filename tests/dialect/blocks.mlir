// RUN: altgrad-opt %s | altgrad-opt | FileCheck %s
// RUN: altgrad-opt %s --emit=report | FileCheck %s --check-prefix=REPORT
// What a block of elements shares, as text, in a rule and in a step.

// CHECK-LABEL: altgrad.rule @r
altgrad.rule @r(param %w: f32, grad %g: f32) {
  // CHECK: altgrad.reduce max %w over block<1x128> : f32
  %m = altgrad.reduce max %w over block<1x128> : f32
  %w1 = mulf %m, %g : f32
  altgrad.yield param(%w1) state()
}

// A byte of scale for 128 elements is no whole byte of traffic.
// REPORT: step s: 1 sweep, 12.0390625 bytes per element (8 read, 4.0390625 written), 1 launch
// REPORT-NEXT: update     chunks 8 read, 4.0390625 written
// CHECK-LABEL: altgrad.step @s
altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %g: !altgrad.tensors<f32>,
                // CHECK: out %top: !altgrad.tensors<f32 per 1x128>
                // CHECK-NEXT: out %code: !altgrad.tensors<ocp.e5m2 per 1x128>
                out %top: !altgrad.tensors<f32 per 1x128>, out %code: !altgrad.tensors<ocp.e5m2 per 1x128>) {
  %x = dequantize %w : !altgrad.tensors<f32>
  %y = dequantize %g : !altgrad.tensors<f32>
  %x1 = update @r param(%x) grad(%y) state() hyper()
  %xe = element %x
  // CHECK: reduce max %{{.*}} over block<1x128> : f32
  %m = reduce max %xe over block<1x128> : f32
  %ml = collect %m : f32 to !altgrad.reals
  %c = quantize %ml round<nearest_even> overflow<nonfinite> : !altgrad.tensors<ocp.e5m2 per 1x128>
  commit always %x1 to %w : !altgrad.tensors<f32>, %ml to %top : !altgrad.tensors<f32 per 1x128>,
      %c to %code : !altgrad.tensors<ocp.e5m2 per 1x128>
}
