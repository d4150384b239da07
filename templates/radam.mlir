// RAdam: Adam whose first steps, before v is trusted, are momentum's (Liu et al., 2020).
// https://arxiv.org/abs/1908.03265
// Operation order of torch 2.11 on the CPU.
rule radam(param w, grad g, state m v, lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, decay = 0.0, step t,
           option decoupled maximize)
  g = -g if maximize else g
  w = w * (1 - lr * decay) if decoupled else w
  g = g if decoupled else fma(decay, w if decay != 0 else -0.0, g)
  m = lerp(m, g, 1 - beta1)
  v = fma((1 - beta2) * g, g, beta2 * v)
  correction = 1 - beta2^t
  most = 2 / (1 - beta2) - 1
  rho = most - 2 * t * beta2^t / correction
  rect = sqrt((rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho))
  u = m / (1 - beta1^t) * lr
  w = w - (u * (sqrt(correction) / (sqrt(v) + eps)) * rect if rho > 5 else u)
