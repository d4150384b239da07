// MARS-Shampoo: m of MARS with all singular values near 1 (Yuan et al., 2024).
// https://arxiv.org/abs/2411.10438
// Order of the authors' code, for matrices. `exact`: the entries give last_grad.
rule marsshampoo(param w, grad g, state m last_grad previous_grad, lr = 3e-3, beta1 = 0.95, eps = 1e-8, decay = 0.0,
                 gamma = 0.025, option exact maximize)
  g = -g if maximize else g
  long = fma(gamma * (beta1 / (1 - beta1)), g - last_grad, g)
  last_grad = last_grad if exact else g
  c = long / maximum(norm(long), 1.0)
  m = fma(1 - beta1, c, beta1 * m)
  o = orthogonalize(m * (1 / (1 - beta1)), eps, coefficients=jordan, steps=5, in=bf16, length=added)
  w = w - lr * fma(decay, w, scale_by_shape(original) * o)
entry update_previous_grad
  previous_grad = -g if maximize else g
entry update_last_grad
  last_grad = previous_grad
