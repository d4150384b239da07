// Sophia-G: momentum divided by a diagonal of the Hessian and clamped (Liu et al., 2023).
// https://arxiv.org/abs/2305.14342
// Order of the authors' code. The entry takes the gradient of a loss whose labels are drawn from the model.
rule sophiag(param w, grad g, state m hessian, lr = 1e-4, beta1 = 0.965, beta2 = 0.99, rho = 0.04, decay = 0.1,
             bs = 5120.0, step t, option maximize)
  g = -g if maximize else g
  w = w * (1 - lr * decay)
  m = fma(1 - beta1, g, beta1 * m)
  w = w - lr * sign(m) * minimum(abs(m) / (rho * bs * hessian + 1e-15), 1.0)
entry update_hessian
  hessian = fma((1 - beta2) * g, g, beta2 * hessian)
