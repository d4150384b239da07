// AdamW as large models train: bf16 gradients and model, f32 master weights and
// moments. Unscales, skips the step if a gradient is not finite, clips by the
// global norm. 16 bytes read and 14 written per element in two sweeps.
altgrad.step @adamw_bf16(
    in    grad      %grads:     !altgrad.tensors<bf16>,
    inout master    %master:    !altgrad.tensors<f32>,
    inout state     %m:         !altgrad.tensors<f32>,
    inout state     %v:         !altgrad.tensors<f32>,
    out   param     %model:     !altgrad.tensors<bf16>,
    inout step      %t:         i64 per_tensor,
    in    hyper     %lr:        f64 per_group = 1.0e-3,
    in    hyper     %beta1:     f64 per_group = 0.9,
    in    hyper     %beta2:     f64 per_group = 0.999,
    in    hyper     %eps:       f64 per_group = 1.0e-8,
    in    hyper     %decay:     f64 per_group = 1.0e-2,
    in    inv_scale %inv_scale: f32,
    in    max_norm  %max_norm:  f32,
    out   norm      %norm:      f32) {
  %g0, %finite = unscale %grads by %inv_scale : !altgrad.tensors<bf16>
  %g, %total = clip_by_global_norm %g0 to %max_norm

  %w0 = dequantize %master : !altgrad.tensors<f32>
  %m0 = dequantize %m : !altgrad.tensors<f32>
  %v0 = dequantize %v : !altgrad.tensors<f32>
  %one = arith.constant 1 : i64
  %t1 = arith.addi %t, %one : i64
  %w1, %m1, %v1 = update @adamw param(%w0) grad(%g) state(%m0, %v0)
      hyper(%lr, %beta1, %beta2, %eps, %decay) step(%t1)

  %half = quantize %w1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>
  commit always
      %total to %norm : f32
      if %finite
      %w1 to %master : !altgrad.tensors<f32>,
      %m1 to %m : !altgrad.tensors<f32>,
      %v1 to %v : !altgrad.tensors<f32>,
      %half to %model : !altgrad.tensors<bf16>,
      %t1 to %t : i64
}
