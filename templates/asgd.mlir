// ASGD: gradient descent, and the average of its parameters (Polyak and Juditsky, 1992).
// https://doi.org/10.1137/0330046
// Operation order of torch 2.11 on the CPU; eta and mu, which the next step takes, are in f64.
rule asgd(param w, grad g, state ax, scalar eta, scalar mu = 1.0, lr = 1e-2, lambd = 1e-4, alpha = 0.75, t0 = 1e6,
          decay = 0.0, step t, option maximize)
  g = -g if maximize else g
  g = fma(decay, w if decay != 0 else -0.0, g)
  rate = lr if t == 1 else eta
  w = fma(-rate, g, w * (1 - lambd * rate))
  ax = w if mu == 1 else ax + (w - ax) * mu
  eta = lr / (1 + lambd * lr * t)^alpha
  mu = 1 / maximum(1, t - t0)
