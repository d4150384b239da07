// Adadelta: steps as long as the last ones were, by the size of the gradients (Zeiler, 2012).
// https://arxiv.org/abs/1212.5701
// Operation order of torch 2.11 on the CPU. t is only counted, as in torch's state.
rule adadelta(param w, grad g, state square_avg acc_delta, lr = 1.0, rho = 0.9, eps = 1e-6, decay = 0.0, step t,
              option maximize)
  g = -g if maximize else g
  g = fma(decay, w if decay != 0 else -0.0, g)
  square_avg = fma((1 - rho) * g, g, rho * square_avg)
  delta = sqrt(acc_delta + eps) / sqrt(square_avg + eps) * g
  acc_delta = fma((1 - rho) * delta, delta, rho * acc_delta)
  w = fma(-lr, delta, w)
