// Adan: Adam with an average of the gradients' differences (Xie et al., 2022).
// https://arxiv.org/abs/2208.06677
// Order of the authors' code. Parameters shrink by a quotient behind the step, or with `no_prox` as AdamW's before it.
rule adan(param w, grad g, state m v exp_avg_diff neg_pre_grad, lr = 1e-3, beta1 = 0.98, beta2 = 0.92, beta3 = 0.99,
          eps = 1e-8, decay = 0.0, step t, option no_prox maximize)
  g = -g if maximize else g
  diff = g + (-g if t == 1 else neg_pre_grad)
  m = fma(1 - beta1, g, beta1 * m)
  exp_avg_diff = fma(1 - beta2, diff, beta2 * exp_avg_diff)
  n = fma(beta2, diff, g)
  v = fma((1 - beta3) * n, n, beta3 * v)
  denom = sqrt(v) / sqrt(1 - beta3^t) + eps
  w = w * (1 - lr * decay) if no_prox else w
  w = w + -(lr / (1 - beta1^t)) * m / denom
  w = w + -(lr * beta2 / (1 - beta2^t)) * exp_avg_diff / denom
  w = w if no_prox else w / (1 + lr * decay)
  neg_pre_grad = -g
