// AdamW on two lists of tensors that share one global norm and nothing else:
// weights in bf16 with an f32 master copy, and vectors (norms, biases) in f32,
// which are other tensors: a set of their own. 30 and 32 bytes per element.
altgrad.step @adamw_mixed(
    in    grad     %weight_grads:       !altgrad.tensors<bf16>,
    out   param    %weights:            !altgrad.tensors<bf16>,
    inout master   %weight_master:      !altgrad.tensors<f32>,
    inout state    %weight_m as m:      !altgrad.tensors<f32>,
    inout state    %weight_v as v:      !altgrad.tensors<f32>,
    in    grad     %vector_grads:       !altgrad.tensors<f32> set 1,
    inout param    %vectors:            !altgrad.tensors<f32> set 1,
    inout state    %vector_m as m:      !altgrad.tensors<f32> set 1,
    inout state    %vector_v as v:      !altgrad.tensors<f32> set 1,
    inout step     %t:        i64 per_tensor,
    in    hyper    %lr:       f64 per_group = 1.0e-3,
    in    hyper    %beta1:    f64 per_group = 0.9,
    in    hyper    %beta2:    f64 per_group = 0.999,
    in    hyper    %eps:      f64 per_group = 1.0e-8,
    in    hyper    %decay:    f64 per_group = 1.0e-2,
    in    max_norm %max_norm: f32,
    out   norm     %norm:     f32) {
  %ga = dequantize %weight_grads : !altgrad.tensors<bf16>
  %gb = dequantize %vector_grads : !altgrad.tensors<f32>
  %ca, %cb, %total = clip_by_global_norm %ga, %gb to %max_norm
  %one = arith.constant 1 : i64
  %t1 = arith.addi %t, %one : i64

  %wa = dequantize %weight_master : !altgrad.tensors<f32>
  %ma = dequantize %weight_m : !altgrad.tensors<f32>
  %va = dequantize %weight_v : !altgrad.tensors<f32>
  %wa1, %ma1, %va1 = update @adamw param(%wa) grad(%ca) state(%ma, %va)
      hyper(%lr, %beta1, %beta2, %eps, %decay) step(%t1)
  %half = quantize %wa1 round<nearest_even> overflow<nonfinite> : !altgrad.tensors<bf16>

  %wb = dequantize %vectors : !altgrad.tensors<f32>
  %mb = dequantize %vector_m : !altgrad.tensors<f32>
  %vb = dequantize %vector_v : !altgrad.tensors<f32>
  %wb1, %mb1, %vb1 = update @adamw param(%wb) grad(%cb) state(%mb, %vb)
      hyper(%lr, %beta1, %beta2, %eps, %decay) step(%t1)

  commit always
      %wa1 to %weight_master : !altgrad.tensors<f32>,
      %half to %weights : !altgrad.tensors<bf16>,
      %ma1 to %weight_m : !altgrad.tensors<f32>,
      %va1 to %weight_v : !altgrad.tensors<f32>,
      %wb1 to %vectors : !altgrad.tensors<f32>,
      %mb1 to %vector_m : !altgrad.tensors<f32>,
      %vb1 to %vector_v : !altgrad.tensors<f32>,
      %t1 to %t : i64,
      %total to %norm : f32
}
