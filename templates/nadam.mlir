// NAdam: Adam with Nesterov's momentum (Dozat, 2016).
// https://openreview.net/forum?id=OM0jvwB8jIp57ZJjtNEZ
// Operation order of torch 2.11 on the CPU, with the product of the momenta in f64.
rule nadam(param w, grad g, state m v, scalar mu_product = 1.0, lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8,
           decay = 0.0, momentum_decay = 4e-3, step t, option decoupled maximize)
  g = -g if maximize else g
  w = w * (1 - lr * decay) if decoupled else w
  g = g if decoupled else fma(decay, w if decay != 0 else -0.0, g)
  mu = beta1 * (1 - 0.5 * 0.96^(t * momentum_decay))
  mu_next = beta1 * (1 - 0.5 * 0.96^((t + 1.0) * momentum_decay))
  mu_product = mu_product * mu
  m = lerp(m, g, 1 - beta1)
  v = fma((1 - beta2) * g, g, beta2 * v)
  denom = sqrt(v / (1 - beta2^t)) + eps
  w = w + -(lr * (1 - mu) / (1 - mu_product)) * g / denom
  w = w + -(lr * mu_next / (1 - mu_product * mu_next)) * m / denom
