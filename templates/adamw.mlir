// AdamW: Adam with decoupled weight decay (Loshchilov and Hutter, 2019).
// https://arxiv.org/abs/1711.05101
// Operation order of torch 2.11's fused kernel for the CPU (vector body).
rule adamw(param w, grad g, state m v vmax, lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 1e-2, step t,
           option amsgrad maximize) step_bound adamw
  g = -g if maximize else g
  w = w * (1 - lr * decay)
  m = lerp(m, g, 1 - beta1)
  v = fma((1 - beta2) * g, g, beta2 * v)
  vmax = maximum(vmax, v) if amsgrad else vmax
  denom = sqrt(vmax if amsgrad else v) / sqrt(1 - beta2^t) + eps
  w = w + -(lr / (1 - beta1^t)) * m / denom
