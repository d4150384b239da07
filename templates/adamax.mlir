// Adamax: Adam with the largest magnitude of the gradients in the place of v (Kingma and Ba, 2015).
// https://arxiv.org/abs/1412.6980
// Operation order of torch 2.11 on the CPU.
rule adamax(param w, grad g, state m exp_inf, lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.0, step t,
            option maximize)
  g = -g if maximize else g
  g = fma(decay, w if decay != 0 else -0.0, g)
  m = lerp(m, g, 1 - beta1)
  exp_inf = maximum(beta2 * exp_inf, abs(g) + eps)
  w = w + -(lr / (1 - beta1^t)) * m / exp_inf
