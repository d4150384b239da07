// StableAdamW: AdamW whose rate shrinks where gradients outgrow their average (Wortsman et al., 2023).
// https://arxiv.org/abs/2304.13013
// Order of the authors' code: the averages are unbiased as they are kept, and each tensor has a rate of its own.
rule stableadamw(param w, grad g, state m v, lr = 2e-3, beta1 = 0.9, beta2 = 0.99, eps = 1e-8, decay = 0.2,
                 clip_thresh = 1.0, step t, option maximize)
  g = -g if maximize else g
  hat1 = beta1 * (1 - beta1^(t - 1)) / (1 - beta1^t)
  hat2 = beta2 * (1 - beta2^(t - 1)) / (1 - beta2^t)
  m = fma(1 - hat1, g, hat1 * m)
  v = fma((1 - hat2) * g, g, hat2 * v)
  size = sqrt(mean(g * g / maximum(v, eps * eps)))
  rate = lr / maximum(1, size / clip_thresh)
  w = w * (1 - rate * decay) + -rate * m / (sqrt(v) + eps)
