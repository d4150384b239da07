// Lion: the sign of an interpolated momentum (Chen et al., 2023).
// https://arxiv.org/abs/2302.06675
// Operation order of the authors' PyTorch code. The sign of 0 and of a NaN is 0.
rule lion(param w, grad g, state m, lr = 1e-4, beta1 = 0.9, beta2 = 0.99, decay = 0.0, option maximize)
  g = -g if maximize else g
  u = sign(beta1 * m + (1 - beta1) * g)
  w = fma(-lr, u, w * (1 - lr * decay))
  m = fma(1 - beta2, g, beta2 * m)
