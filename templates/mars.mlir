// MARS: AdamW of gradients that are corrected by their change and bounded (Yuan et al., 2024).
// https://arxiv.org/abs/2411.10438
// Order of the authors' code. `plain` is AdamW, which takes what is no matrix. `exact`: the entries give last_grad.
// `lion` steps by the sign of m.
rule mars(param w, grad g, state m v last_grad vmax previous_grad, lr = 3e-3, beta1 = 0.95, beta2 = 0.99, eps = 1e-8,
          decay = 0.0, gamma = 0.025, lr_1d_factor = 1.0, beta1_1d = 0.9, beta2_1d = 0.95, decay_1d = 0.1, step t,
          option amsgrad plain exact lion maximize)
  g = -g if maximize else g
  long = fma(gamma * (beta1 / (1 - beta1)), g - last_grad, g)
  last_grad = last_grad if exact else g
  c = g if plain else long / maximum(norm(long), 1.0)
  b1 = beta1_1d if plain else beta1
  b2 = beta2_1d if plain else beta2
  m = fma(1 - b1, c, b1 * m)
  v = v if lion else fma((1 - b2) * c, c, b2 * v)
  vmax = maximum(vmax, v) if amsgrad and not lion else vmax
  u = sign(m) if lion else m / ((sqrt(vmax if amsgrad else v) * (1 / sqrt(1 - b2^t)) + eps) * (1 - b1^t))
  w = w - (lr * lr_1d_factor if plain else lr) * fma(decay_1d if plain else decay, w, u)
entry update_previous_grad
  previous_grad = -g if maximize else g
entry update_last_grad
  last_grad = previous_grad
