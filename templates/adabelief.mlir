// AdaBelief: Adam that divides by how far gradients are from their average (Zhuang et al., 2020).
// https://arxiv.org/abs/2010.07468
// Order of the authors' adabelief-pytorch 0.2, which adds eps to the state itself. `rectify` is RAdam's.
rule adabelief(param w, grad g, state m exp_avg_var max_exp_avg_var, lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-16,
               decay = 0.0, step t, option amsgrad coupled fixed_decay rectify degenerated maximize)
  g = -g if maximize else g
  w = w if coupled else (w * (1 - decay) if fixed_decay else w * (1 - lr * decay))
  g = fma(decay, w if decay != 0 else -0.0, g) if coupled else g
  m = fma(1 - beta1, g, beta1 * m)
  rest = g - m
  exp_avg_var = fma((1 - beta2) * rest, rest, beta2 * exp_avg_var) + eps
  max_exp_avg_var = maximum(max_exp_avg_var, exp_avg_var) if amsgrad else max_exp_avg_var
  plain = w + -(lr / (1 - beta1^t)) * m / (sqrt(max_exp_avg_var if amsgrad else exp_avg_var) / sqrt(1 - beta2^t) + eps)
  most = 2 / (1 - beta2) - 1
  rho = most - 2 * t * beta2^t / (1 - beta2^t)
  rate = sqrt((1 - beta2^t) * (rho - 4) / (most - 4) * (rho - 2) / rho * most / (most - 2)) / (1 - beta1^t)
  first = fma(-(lr / (1 - beta1^t)), m, w) if degenerated else w
  w = (w + -(lr * rate) * m / (sqrt(exp_avg_var) + eps) if rho >= 5 else first) if rectify else plain
