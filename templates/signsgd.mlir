// SignSGD, and Signum with momentum (Bernstein et al., 2018).
// https://arxiv.org/abs/1802.04434
// The sign of 0 and of a NaN is 0. Without `momentum_on` no momentum is stored.
rule signsgd(param w, grad g, state m, lr = 1e-3, momentum = 0.9, decay = 0.0, option momentum_on maximize)
  g = -g if maximize else g
  mixed = fma(1 - momentum, g, momentum * m)
  m = mixed if momentum_on else m
  w = fma(-lr, sign(mixed if momentum_on else g), w * (1 - lr * decay))
