// Adam (Kingma and Ba, 2015) with coupled weight decay; decoupled: adamw.mlir.
// https://arxiv.org/abs/1412.6980
// Operation order of torch 2.11's fused kernel for the CPU (vector body). Without decay an infinite w leaves g alone.
rule adam(param w, grad g, state m v vmax, lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.0, step t,
          option amsgrad maximize) step_bound adam
  g = -g if maximize else g
  g = fma(decay, w if decay != 0 else -0.0, g)
  m = lerp(m, g, 1 - beta1)
  v = fma((1 - beta2) * g, g, beta2 * v)
  vmax = maximum(vmax, v) if amsgrad else vmax
  denom = sqrt(vmax if amsgrad else v) / sqrt(1 - beta2^t) + eps
  w = w + -(lr / (1 - beta1^t)) * m / denom
