// Adagrad (Duchi, Hazan and Singer, 2011).
// https://jmlr.org/papers/v12/duchi11a.html
// Operation order of torch 2.11 on the CPU, with an IEEE root. torch's `initial_accumulator_value` is what the caller
// puts into `sum`. Without decay an infinite w leaves g alone.
rule adagrad(param w, grad g, state sum, lr = 1e-2, lr_decay = 0.0, eps = 1e-10, decay = 0.0, step t, option maximize)
  g = -g if maximize else g
  g = fma(decay, w, g) if decay != 0 else g
  sum = fma(g, g, sum)
  w = w + -(lr / (1 + (t - 1.0) * lr_decay)) * g / (sqrt(sum) + eps)
